/* Events around steps, for diagnosis only: a measured run makes none. */
#ifndef FPM_TIMING_H
#define FPM_TIMING_H

#include "program.h"

failure make_event(machine *m, void **event);
failure free_event(machine *m, void *event);

/* Puts an event on the stream, after what was launched before. */
failure record_event(machine *m, void *event);

/* Waits for the second of two events; nanoseconds between them. */
failure between_events(machine *m, void *from, void *to, int64_t *nanoseconds);

#endif
