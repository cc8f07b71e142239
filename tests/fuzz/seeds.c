/* Runs a fuzz target over the files of its seed directory: the targets stay
 * alive, and what they once found stays fixed, where there is no libFuzzer. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "common/common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *f;
	int n = 0;

	if (!dir) {
		fprintf(stderr, "usage: %s SEED-DIRECTORY\n", argv[0]);
		return 2;
	}
	while ((f = readdir(dir))) {
		char path[4096];
		char *text;
		size_t len;
		struct bace_err e;

		if (f->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], f->d_name);
		if (bace_read_file(path, 1 << 20, &text, &len, &e)) {
			fprintf(stderr, "%s\n", e.msg);
			return 1;
		}
		/* A copy of the exact length, so that ASan sees what reads past it. */
		uint8_t *exact = malloc(len ? len : 1);

		if (!exact)
			return 1;
		memcpy(exact, text, len);
		free(text);
		LLVMFuzzerTestOneInput(exact, len);
		free(exact);
		n++;
	}
	closedir(dir);
	printf("%d seeds\n", n);
	return n ? 0 : 1;
}
