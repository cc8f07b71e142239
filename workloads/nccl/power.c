#include "workloads/nccl/power.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* NVML's header is not part of the toolkit's core: the few declarations that are
 * used, as its reference has them. 0 is success. */
struct power {
	void *library, *device;
	int (*shutdown)(void);
	int (*energy)(void *device, unsigned long long *mj);
	char name[96];
};

static int find(void *library, const char *symbol, void *fn, struct bace_err *e)
{
	void *p = dlsym(library, symbol);

	*(void **)fn = p;
	return p ? 0 : bace_fail(e, ENOTSUP, "NVML has no %s", symbol);
}

static int open_device(struct power *p, const char *bus, struct bace_err *e)
{
	int (*init)(void), (*by_bus)(const char *bus, void **device), (*name)(void *device, char *text, unsigned n);
	unsigned long long mj;
	int rc = find(p->library, "nvmlInit_v2", &init, e);

	if (!rc)
		rc = find(p->library, "nvmlShutdown", &p->shutdown, e);
	if (!rc)
		rc = find(p->library, "nvmlDeviceGetHandleByPciBusId_v2", &by_bus, e);
	if (!rc)
		rc = find(p->library, "nvmlDeviceGetTotalEnergyConsumption", &p->energy, e);
	if (!rc)
		rc = find(p->library, "nvmlDeviceGetName", &name, e);
	if (rc) {
		p->shutdown = NULL;
		return rc;
	}
	rc = init();
	if (rc) {
		p->shutdown = NULL;
		return bace_fail(e, ENOTSUP, "NVML does not start: error %d", rc);
	}
	rc = by_bus(bus, &p->device);
	if (rc)
		return bace_fail(e, ENOTSUP, "NVML does not know GPU %s: error %d", bus, rc);
	if (name(p->device, p->name, sizeof(p->name)))
		p->name[0] = '\0';
	rc = p->energy(p->device, &mj);
	return rc ? bace_fail(e, ENOTSUP, "GPU %s has no energy counter: NVML error %d", bus, rc) : 0;
}

int power_open(const char *bus, struct power **out, struct bace_err *e)
{
	struct power *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return bace_fail(e, ENOMEM, "NVML: out of memory");
	p->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	rc = p->library ? open_device(p, bus, e) : bace_fail(e, ENOTSUP, "%.300s", dlerror());
	if (rc)
		power_close(p);
	else
		*out = p;
	return rc;
}

double power_energy_j(const struct power *p)
{
	unsigned long long mj;

	return p->energy(p->device, &mj) ? -1 : (double)mj / 1e3;
}

const char *power_gpu_name(const struct power *p)
{
	return p->name;
}

void power_close(struct power *p)
{
	if (p->shutdown)
		p->shutdown();
	if (p->library)
		dlclose(p->library);
	free(p);
}
