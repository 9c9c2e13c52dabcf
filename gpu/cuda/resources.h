/* What the compiler gave a kernel. */
#ifndef FPM_RESOURCES_H
#define FPM_RESOURCES_H

#include "program.h"

/* Registers of a thread, bytes of a thread in local memory, and bytes of shared memory that a block has beside what the launch gives. */
typedef struct {
	int registers, local, shared;
} kernel_resources;

failure read_resources(machine *m, void *function, kernel_resources *r);

/* How many clusters of so many blocks run at the same time, each with all the shared memory that is given. */
failure read_clusters(machine *m, void *function, unsigned blocks, unsigned threads, unsigned shared, int *clusters);

#endif
