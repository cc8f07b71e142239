#include "workloads/worker/rank.h"

int main(int argc, char **argv)
{
	static const struct rank_kinds kinds = { 0 };

	return worker_main(argc, argv, "bace-worker", &kinds);
}
