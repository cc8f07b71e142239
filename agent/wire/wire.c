#include "agent/wire/wire.h"
