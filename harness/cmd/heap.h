#ifndef BACE_CMD_HEAP_H
#define BACE_CMD_HEAP_H

#include <malloc.h>

/* Simulations take and return the same scratch again and again; giving it back
 * to the kernel each time costs more than the simulation. */
static inline void heap_keep(void)
{
	mallopt(M_TRIM_THRESHOLD, 512 << 20);
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TOP_PAD, 1 << 20);
}

#endif
