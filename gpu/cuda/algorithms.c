#include "algorithms.h"

enum { MOST = 16, PREFERENCE_WORKSPACE = 1 };

failure list_algorithms(machine *m, int plan, blas_algo *algorithms, int most, int *found) {
	DRIVER_CALL(cuCtxSetCurrent, m->context);
	const gemm_plan *p = &m->plans[plan];
	blas_result results[MOST];
	int count = 0;
	void *preference = 0;
	BLAS_CALL(cublasLtMatmulPreferenceCreate, &preference);
	int code = blas.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, &m->workspace_size, sizeof m->workspace_size);
	if (!code)
		code = blas.cublasLtMatmulAlgoGetHeuristic(m->handle, p->desc, p->weights, p->in, p->out, p->out, preference, most < MOST ? most : MOST, results, &count);
	blas.cublasLtMatmulPreferenceDestroy(preference);
	if (code) return blas_failed("cublasLtMatmulAlgoGetHeuristic", code);
	*found = 0;
	for (int i = 0; i < count; i++)
		if (!results[i].state) algorithms[(*found)++] = results[i].algo;
	return no_failure;
}

void set_algorithm(machine *m, int plan, const blas_algo *algorithm) { m->plans[plan].algo = *algorithm; }
