#include "harness/lab/lab.h"
