#include "shaper/shaper.h"
