#include "harness/policy/policy.h"
