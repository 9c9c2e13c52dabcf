/* The algorithms that cuBLASLt has for a product. */
#ifndef FPM_ALGORITHMS_H
#define FPM_ALGORITHMS_H

#include "program.h"

/* Asks for the algorithms of a planned product, the one that the library thinks best first. */
failure list_algorithms(machine *m, int plan, blas_algo *algorithms, int most, int *found);

void set_algorithm(machine *m, int plan, const blas_algo *algorithm);

#endif
