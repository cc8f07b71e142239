/* Private to results: numbers as text, fast: an export writes millions. */
#ifndef BACE_RESULTS_NUMBER_H
#define BACE_RESULTS_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#define NUMBER_MAX 40

/* As "%.12g" prints it (12 digits are more than any of our clocks gives);
 * finite v only. Return the length. */
size_t format_number(char buf[NUMBER_MAX], double v);
size_t format_integer(char buf[NUMBER_MAX], int64_t v);

#endif
