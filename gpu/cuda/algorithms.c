#include "algorithms.h"

enum { MOST = 16 };

failure list_algorithms(machine *m, int plan, blas_algo *algorithms, int most, int *found) {
	ENTER;
	blas_result results[MOST];
	int count = 0;
	failure f = ask_algorithms(m, &m->plans[plan], results, most < MOST ? most : MOST, &count);
	if (f.call) return f;
	*found = 0;
	for (int i = 0; i < count; i++)
		if (!results[i].state) algorithms[(*found)++] = results[i].algo;
	return no_failure;
}

void set_algorithm(machine *m, int plan, const blas_algo *algorithm) { m->plans[plan].algo = *algorithm; }
