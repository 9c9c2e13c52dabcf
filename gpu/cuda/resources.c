#include "resources.h"

enum { SHARED_BYTES = 1, LOCAL_BYTES = 3, REGISTERS = 4 };

failure read_resources(machine *m, void *function, kernel_resources *r) {
	ENTER;
	DRIVER_CALL(cuFuncGetAttribute, &r->registers, REGISTERS, function);
	DRIVER_CALL(cuFuncGetAttribute, &r->local, LOCAL_BYTES, function);
	DRIVER_CALL(cuFuncGetAttribute, &r->shared, SHARED_BYTES, function);
	return no_failure;
}
