// Times collectives of an MPI library, one line a cell: operation, bytes, ranks, number, median, 10th and 90th percentile in
// microseconds. Arguments: seconds a cell may take, then OPERATION:BYTES... The same loop is in cmd/fpmcoll and gloo.cc.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static char *send_memory, *recv_memory;

static void operate(const char *op, int bytes) {
	if (!strcmp(op, "barrier"))
		MPI_Barrier(MPI_COMM_WORLD);
	else if (!strcmp(op, "broadcast"))
		MPI_Bcast(send_memory, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
	else if (!strcmp(op, "gather"))
		MPI_Gather(send_memory, bytes, MPI_BYTE, recv_memory, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
	else if (!strcmp(op, "allgather"))
		MPI_Allgather(send_memory, bytes, MPI_BYTE, recv_memory, bytes, MPI_BYTE, MPI_COMM_WORLD);
	else if (!strcmp(op, "allreduce"))
		MPI_Allreduce(send_memory, recv_memory, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	else {
		fprintf(stderr, "operation %s: want barrier, broadcast, gather, allgather or allreduce\n", op);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
}

// The slowest rank's seconds of one operation that all enter together.
static double timed(const char *op, int bytes) {
	if (strcmp(op, "barrier"))
		MPI_Barrier(MPI_COMM_WORLD);
	double start = MPI_Wtime();
	operate(op, bytes);
	return MPI_Wtime() - start;
}

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void cell(const char *op, int bytes, double seconds) {
	double probe[5], slowest[5], *own, *all;
	for (int i = 0; i < 5; i++)
		probe[i] = timed(op, bytes);
	MPI_Allreduce(probe, slowest, 5, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(slowest, 5, sizeof(double), ascending);
	int n = (int)(seconds / 2 / (slowest[2] + 1e-7));
	n = n < 5 ? 5 : n > 5000 ? 5000 : n;
	own = malloc(n * sizeof(double));
	all = malloc(n * sizeof(double));
	for (int i = 0; i < n; i++)
		own[i] = timed(op, bytes);
	MPI_Allreduce(own, all, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	qsort(all, n, sizeof(double), ascending);
	if (rank == 0) {
		printf("%s\t%d\t%d\t%d\t%.2f\t%.2f\t%.2f\n", op, bytes, size, n, all[n / 2] * 1e6, all[n / 10] * 1e6, all[n * 9 / 10] * 1e6);
		fflush(stdout);
	}
	free(own);
	free(all);
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	for (int i = 2; i < argc; i++) {
		char op[32];
		int bytes;
		if (sscanf(argv[i], "%31[a-z]:%d", op, &bytes) != 2) {
			fprintf(stderr, "argument %s: want OPERATION:BYTES\n", argv[i]);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		send_memory = calloc(bytes + 8, 1);
		recv_memory = calloc((size_t)(bytes + 8) * size, 1);
		memset(send_memory, 1, bytes);
		memset(recv_memory, 1, (size_t)bytes * size);
		cell(op, bytes, atof(argv[1]));
		free(send_memory);
		free(recv_memory);
	}
	MPI_Finalize();
	return 0;
}
