// Times Gloo's collectives over TCP: the loop, the arguments and the output of mpi.c. Rank, size and a job's name come from the
// environment that fpmrun sets; the ranks find each other through a folder under TMPDIR.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::vector<char> sent, received;

static double now() {
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void barrier() {
	gloo::BarrierOptions o(context);
	gloo::barrier(o);
}

static void operate(const std::string &op, size_t bytes) {
	if (op == "barrier") {
		barrier();
	} else if (op == "broadcast") {
		gloo::BroadcastOptions o(context);
		o.setOutput(sent.data(), bytes);
		o.setRoot(0);
		gloo::broadcast(o);
	} else if (op == "gather") {
		gloo::GatherOptions o(context);
		o.setInput(sent.data(), bytes);
		if (context->rank == 0)
			o.setOutput(received.data(), bytes * context->size);
		o.setRoot(0);
		gloo::gather(o);
	} else if (op == "allgather") {
		gloo::AllgatherOptions o(context);
		o.setInput(sent.data(), bytes);
		o.setOutput(received.data(), bytes * context->size);
		gloo::allgather(o);
	} else if (op == "allreduce") {
		gloo::AllreduceOptions o(context);
		o.setInput(reinterpret_cast<double *>(sent.data()), bytes / 8);
		o.setOutput(reinterpret_cast<double *>(received.data()), bytes / 8);
		o.setReduceFunction([](void *c, const void *a, const void *b, size_t n) { gloo::sum<double>(c, a, b, n); });
		gloo::allreduce(o);
	} else {
		fprintf(stderr, "operation %s: want barrier, broadcast, gather, allgather or allreduce\n", op.c_str());
		exit(2);
	}
}

static std::vector<double> slowest(std::vector<double> own) {
	gloo::AllreduceOptions o(context);
	o.setOutput(own.data(), own.size());
	o.setReduceFunction([](void *c, const void *a, const void *b, size_t n) { gloo::max<double>(c, a, b, n); });
	gloo::allreduce(o);
	std::sort(own.begin(), own.end());
	return own;
}

static double timed(const std::string &op, size_t bytes) {
	if (op != "barrier")
		barrier();
	double start = now();
	operate(op, bytes);
	return now() - start;
}

static void cell(const std::string &op, size_t bytes, double seconds) {
	std::vector<double> probe(5);
	for (auto &t : probe)
		t = timed(op, bytes);
	size_t n = seconds / 2 / (slowest(probe)[2] + 1e-7);
	n = std::min<size_t>(std::max<size_t>(n, 5), 5000);
	std::vector<double> all(n);
	for (auto &t : all)
		t = timed(op, bytes);
	all = slowest(all);
	if (context->rank == 0) {
		printf("%s\t%zu\t%d\t%zu\t%.2f\t%.2f\t%.2f\n", op.c_str(), bytes, context->size, n, all[n / 2] * 1e6, all[n / 10] * 1e6, all[n * 9 / 10] * 1e6);
		fflush(stdout);
	}
}

int main(int argc, char **argv) {
	gloo::transport::tcp::attr attr;
	attr.iface = "lo";
	auto device = gloo::transport::tcp::CreateDevice(attr);
	const char *folder = getenv("TMPDIR");
	gloo::rendezvous::FileStore files(folder ? folder : "/tmp");
	gloo::rendezvous::PrefixStore store(getenv("FPM_RUN_ID"), files);
	context = std::make_shared<gloo::rendezvous::Context>(atoi(getenv("FPM_RANK")), atoi(getenv("FPM_WORLD_SIZE")));
	context->connectFullMesh(store, device);
	for (int i = 2; i < argc; i++) {
		std::string arg = argv[i];
		auto colon = arg.find(':');
		size_t bytes = std::stoul(arg.substr(colon + 1));
		sent.assign(bytes + 8, 1);
		received.assign((bytes + 8) * context->size, 1);
		cell(arg.substr(0, colon), bytes, atof(argv[1]));
	}
	barrier();
	return 0;
}
