/* The part of NVML that is used, bound at run time. Names and layouts are of
 * NVIDIA's NVML API reference. */
#include <dlfcn.h>
#include <string.h>

#include "agent/monitor/monitor.h"

typedef struct nvml_device *device;

static struct {
	bool tried;
	int n;
	char why[128];
	int (*init)(void);
	int (*get_count)(unsigned *n);
	int (*by_index)(unsigned i, device *d);
	int (*name)(device d, char *text, unsigned n);
	int (*uuid)(device d, char *text, unsigned n);
	int (*memory)(device d, unsigned long long v[3]);	/* total, free, used */
	int (*power_limit)(device d, unsigned *mw);
	int (*power)(device d, unsigned *mw);
	int (*energy)(device d, unsigned long long *mj);
	int (*utilization)(device d, unsigned v[2]);		/* GPU, memory; percent */
} nvml;

static bool bind_all(void *lib)
{
	const struct { const char *name; void *fn; } names[] = {
		{ "nvmlInit_v2", &nvml.init }, { "nvmlDeviceGetCount_v2", &nvml.get_count },
		{ "nvmlDeviceGetHandleByIndex_v2", &nvml.by_index }, { "nvmlDeviceGetName", &nvml.name },
		{ "nvmlDeviceGetUUID", &nvml.uuid }, { "nvmlDeviceGetMemoryInfo", &nvml.memory },
		{ "nvmlDeviceGetEnforcedPowerLimit", &nvml.power_limit },
		{ "nvmlDeviceGetPowerUsage", &nvml.power },
		{ "nvmlDeviceGetTotalEnergyConsumption", &nvml.energy },
		{ "nvmlDeviceGetUtilizationRates", &nvml.utilization },
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		void *fn = dlsym(lib, names[i].name);

		if (!fn) {
			snprintf(nvml.why, sizeof(nvml.why), "libnvidia-ml.so.1 has no %s", names[i].name);
			return false;
		}
		memcpy(names[i].fn, &fn, sizeof(fn));
	}
	return true;
}

static void load(void)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	unsigned n = 0;
	int rc;

	nvml.tried = true;
	if (!lib) {
		snprintf(nvml.why, sizeof(nvml.why), "no libnvidia-ml.so.1: no NVIDIA driver here");
		return;
	}
	if (!bind_all(lib))
		return;
	rc = nvml.init();
	if (!rc)
		rc = nvml.get_count(&n);
	if (rc)
		snprintf(nvml.why, sizeof(nvml.why), "NVML: error %d", rc);
	else
		nvml.n = (int)n;
}

int nvml_count(char why[128])
{
	if (!nvml.tried)
		load();
	if (why)
		memcpy(why, nvml.why, 128);
	return nvml.n;
}

static bool find(int index, device *d)
{
	return index >= 0 && index < nvml_count(NULL) && !nvml.by_index((unsigned)index, d);
}

bool nvml_describe(int index, struct gpu_info *out)
{
	unsigned long long memory[3] = { 0 };
	device d;

	*out = (struct gpu_info){ 0 };
	if (!find(index, &d) || nvml.name(d, out->name, sizeof(out->name)))
		return false;
	if (nvml.uuid(d, out->uuid, sizeof(out->uuid)))
		out->uuid[0] = '\0';
	if (!nvml.memory(d, memory))
		out->memory_bytes = memory[0];
	if (nvml.power_limit(d, &out->power_limit_mw))
		out->power_limit_mw = 0;
	return true;
}

bool nvml_read(int index, struct gpu_reading *out)
{
	unsigned long long mj = 0;
	unsigned busy[2] = { 0 };
	device d;

	*out = (struct gpu_reading){ 0 };
	if (!find(index, &d))
		return false;
	out->has_power = !nvml.power(d, &out->power_mw);
	out->has_energy = !nvml.energy(d, &mj);
	out->energy_mj = mj;
	out->has_busy = !nvml.utilization(d, busy);
	out->busy_percent = busy[0];
	return out->has_power || out->has_energy || out->has_busy;
}
