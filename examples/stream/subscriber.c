/* Prints the records of a live stream as JSON lines: subscriber tcp://HOST:PORT [COUNT]
 *
 * Ends after COUNT records that are no heartbeats. Needs libzmq (Debian: libzmq3-dev):  cc -o subscriber subscriber.c -lzmq
 * docs/stream.md has the wire format. The payload is printed by a walk over the MessagePack values that records are made of: maps, strings,
 * integers and floats. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

struct reader {
	const uint8_t *at, *end;
	double wall_time; /* of the record */
};

static void fail(const char *what)
{
	fprintf(stderr, "subscriber: %s\n", what);
	exit(1);
}

/* big reads n bytes, most significant first. */
static uint64_t big(struct reader *r, int n)
{
	uint64_t v = 0;
	if (r->end - r->at < n)
		fail("a record is cut short");
	while (n-- > 0)
		v = v << 8 | *r->at++;
	return v;
}

/* string_size reads the head of a string and returns its length. */
static size_t string_size(struct reader *r)
{
	uint8_t code = big(r, 1);
	size_t n;
	if ((code & 0xe0) == 0xa0)
		n = code & 0x1f;
	else if (code >= 0xd9 && code <= 0xdb)
		n = big(r, 1 << (code - 0xd9));
	else {
		fail("want a string");
		return 0;
	}
	if ((size_t)(r->end - r->at) < n)
		fail("a record is cut short");
	return n;
}

/* print_string prints n bytes of UTF-8 as a JSON string. */
static void print_string(const uint8_t *s, size_t n)
{
	putchar('"');
	for (; n > 0; n--, s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if (*s < 0x20)
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}

/* print_value prints the next value as JSON and returns it when it is a number. */
static double print_value(struct reader *r)
{
	uint8_t code = big(r, 1);
	size_t n;
	if (code <= 0x7f || code >= 0xe0) {
		printf("%d", (int8_t)code);
		return (int8_t)code;
	}
	if (code >= 0xcc && code <= 0xcf) { /* unsigned, 1 to 8 bytes */
		uint64_t v = big(r, 1 << (code - 0xcc));
		printf("%" PRIu64, v);
		return v;
	}
	if (code >= 0xd0 && code <= 0xd3) { /* signed */
		int bytes = 1 << (code - 0xd0), shift = 64 - 8 * bytes;
		int64_t v = (int64_t)(big(r, bytes) << shift) >> shift;
		printf("%" PRId64, v);
		return v;
	}
	if (code == 0xcb) {
		uint64_t bits = big(r, 8);
		double v;
		memcpy(&v, &bits, sizeof v);
		printf("%.17g", v);
		return v;
	}
	if ((code & 0xf0) == 0x80)
		n = code & 0x0f;
	else if (code == 0xde || code == 0xdf)
		n = big(r, code == 0xde ? 2 : 4);
	else { /* a string, or nothing that a record has */
		r->at--;
		n = string_size(r);
		print_string(r->at, n);
		r->at += n;
		return 0;
	}
	putchar('{');
	for (size_t i = 0; i < n; i++) {
		size_t size = string_size(r);
		const uint8_t *key = r->at;
		print_string(key, size);
		r->at += size;
		putchar(':');
		double v = print_value(r);
		if (size == 9 && memcmp(key, "wall_time", 9) == 0)
			r->wall_time = v;
		if (i + 1 < n)
			putchar(',');
	}
	putchar('}');
	return 0;
}

/* receive reads the next frame and says whether another follows. */
static int receive(void *socket, zmq_msg_t *frame)
{
	if (zmq_msg_recv(frame, socket, 0) < 0)
		fail(zmq_strerror(zmq_errno()));
	return zmq_msg_more(frame);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		fail("want tcp://HOST:PORT [COUNT]");
	long count = argc > 2 ? atol(argv[2]) : 0;
	void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_SUB);
	if (zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) || zmq_connect(socket, argv[1]))
		fail(zmq_strerror(zmq_errno()));
	setvbuf(stdout, NULL, _IOLBF, 0);
	uint64_t expected = 0;
	int begun = 0;
	zmq_msg_t topic, number, payload;
	zmq_msg_init(&topic);
	zmq_msg_init(&number);
	zmq_msg_init(&payload);
	for (;;) {
		if (!receive(socket, &topic) || !receive(socket, &number) || receive(socket, &payload) || zmq_msg_size(&number) != 8)
			fail("a message is not topic, sequence and record");
		struct reader r = {zmq_msg_data(&number), (uint8_t *)zmq_msg_data(&number) + 8, 0};
		uint64_t sequence = big(&r, 8), lost = begun && sequence > expected ? sequence - expected : 0;
		begun = 1;
		expected = sequence + 1;
		r.at = zmq_msg_data(&payload);
		r.end = r.at + zmq_msg_size(&payload);
		printf("{\"sequence\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"record\":", sequence, lost);
		print_value(&r);
		printf("}\n");
		if (r.at != r.end)
			fail("something stands behind a record");
		if (r.wall_time != 0 && --count == 0)
			break;
	}
	zmq_close(socket);
	zmq_ctx_destroy(context);
	return 0;
}
