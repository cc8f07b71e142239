/* The reader of NCCL's log: fed at once and byte by byte it holds the same; what
 * it holds is bounded text; every refusal has a message. */
#include <stdlib.h>
#include <string.h>

#include "workloads/nccl/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text, size_t size)
{
	if (strnlen(text, size) == size)
		abort();
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct nccl_log whole, pieces;
	static const int peers[] = { 0, 2 };
	struct bace_err e = { 0 };
	int rc;

	whole = pieces = (struct nccl_log){ 0 };
	nccl_log_feed(&whole, (const char *)data, size);
	for (size_t i = 0; i < size; i++)
		nccl_log_feed(&pieces, (const char *)data + i, 1);
	if (memcmp(&whole, &pieces, sizeof(whole)) || whole.n_paths > NCCL_LOG_PATHS_MAX)
		abort();
	check_text(whole.network, sizeof(whole.network));
	check_text(whole.interfaces, sizeof(whole.interfaces));
	check_text(whole.warning, sizeof(whole.warning));
	for (size_t i = 0; i < whole.n_paths; i++)
		check_text(whole.paths[i].via, sizeof(whole.paths[i].via));
	rc = nccl_log_check(&whole, 1, peers, 2, "eth0:10.1.2.3", &e);
	if (rc && (rc != -e.errnum || !*e.msg))
		abort();
	return 0;
}
