#include "resources.h"

enum { SHARED_BYTES = 1, LOCAL_BYTES = 3, REGISTERS = 4 };

failure read_resources(machine *m, void *function, kernel_resources *r) {
	ENTER;
	DRIVER_CALL(cuFuncGetAttribute, &r->registers, REGISTERS, function);
	DRIVER_CALL(cuFuncGetAttribute, &r->local, LOCAL_BYTES, function);
	DRIVER_CALL(cuFuncGetAttribute, &r->shared, SHARED_BYTES, function);
	return no_failure;
}

failure read_clusters(machine *m, void *function, unsigned blocks, unsigned threads, unsigned shared, int *clusters) {
	ENTER;
	launch_attribute cluster = {.id = CLUSTER_DIMENSION, .value.size = {blocks, 1, 1}};
	launch_config config = {{blocks, 1, 1}, {threads, 1, 1}, shared, m->stream, &cluster, 1};
	DRIVER_CALL(cuOccupancyMaxActiveClusters, clusters, function, &config);
	return no_failure;
}
