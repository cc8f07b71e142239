#include "harness/sim/sim.h"
