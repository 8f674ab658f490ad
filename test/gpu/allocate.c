/* Takes memory on one card, really, by the driver's own interface, and holds
 * it until its standard input ends. It loads libcuda when it runs, so that
 * neither CUDA's compiler nor its headers are needed to build it:
 *
 *     cc -o allocate allocate.c -ldl
 *     ./allocate GPU-UUID MIB
 *
 * It prints "holding N MiB on UUID" once the memory is written to. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*init_fn)(unsigned);
typedef int (*count_fn)(int *);
typedef int (*device_fn)(int *, int);
typedef int (*uuid_fn)(unsigned char *, int);
typedef int (*create_fn)(void **, unsigned, int);
typedef int (*alloc_fn)(unsigned long long *, size_t);
typedef int (*set_fn)(unsigned long long, unsigned char, size_t);
typedef int (*sync_fn)(void);

static void *find(void *lib, const char *name) {
	void *f = dlsym(lib, name);
	if (f == NULL) {
		fprintf(stderr, "allocate: libcuda has no %s\n", name);
		exit(1);
	}
	return f;
}

static void must(int code, const char *what) {
	if (code != 0) {
		fprintf(stderr, "allocate: %s: CUDA error %d\n", what, code);
		exit(1);
	}
}

static void spell(const unsigned char *b, char *out) {
	sprintf(out, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
		b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

int main(int argc, char **argv) {
	if (argc != 3 || atol(argv[2]) < 1) {
		fprintf(stderr, "usage: allocate GPU-UUID MIB\n");
		return 2;
	}
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (lib == NULL) {
		fprintf(stderr, "allocate: %s\n", dlerror());
		return 1;
	}
	must(((init_fn)find(lib, "cuInit"))(0), "start");
	int count = 0, chosen = -1;
	must(((count_fn)find(lib, "cuDeviceGetCount"))(&count), "count the cards");
	for (int i = 0; i < count && chosen < 0; i++) {
		int device;
		unsigned char bytes[16];
		char name[64];
		must(((device_fn)find(lib, "cuDeviceGet"))(&device, i), "find a card");
		must(((uuid_fn)find(lib, "cuDeviceGetUuid"))(bytes, device), "read a card's uuid");
		spell(bytes, name);
		if (strcmp(name, argv[1]) == 0)
			chosen = device;
	}
	if (chosen < 0) {
		fprintf(stderr, "allocate: no card %s among %d\n", argv[1], count);
		return 1;
	}
	void *context;
	unsigned long long memory;
	size_t bytes = (size_t)atol(argv[2]) << 20;
	must(((create_fn)find(lib, "cuCtxCreate_v2"))(&context, 0, chosen), "open the card");
	must(((alloc_fn)find(lib, "cuMemAlloc_v2"))(&memory, bytes), "take the memory");
	must(((set_fn)find(lib, "cuMemsetD8_v2"))(memory, 1, bytes), "write to the memory");
	must(((sync_fn)find(lib, "cuCtxSynchronize"))(), "wait for the card");
	printf("holding %s MiB on %s\n", argv[2], argv[1]);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
