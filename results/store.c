#include "results/results.h"
