#include "profiles/profiles.h"
