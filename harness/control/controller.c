#include "harness/control/control.h"
