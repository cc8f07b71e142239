#include "workloads/schedule/schedule.h"
