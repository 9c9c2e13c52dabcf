#include "timing.h"

failure make_event(machine *m, void **event) {
	ENTER;
	DRIVER_CALL(cuEventCreate, event, 0);
	return no_failure;
}

failure free_event(machine *m, void *event) {
	ENTER;
	DRIVER_CALL(cuEventDestroy, event);
	return no_failure;
}

failure record_event(machine *m, void *event) {
	ENTER;
	DRIVER_CALL(cuEventRecord, event, m->stream);
	return no_failure;
}

failure between_events(machine *m, void *from, void *to, int64_t *nanoseconds) {
	ENTER;
	float milliseconds = 0;
	DRIVER_CALL(cuEventSynchronize, to);
	DRIVER_CALL(cuEventElapsedTime, &milliseconds, from, to);
	*nanoseconds = (int64_t)((double)milliseconds * 1e6);
	return no_failure;
}
