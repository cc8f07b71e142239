#include "harness/oracle/oracle.h"
