#include "harness/cmd/doctor.h"

#include <stdlib.h>
#include <string.h>

const char *const distro_names[N_DISTROS] = {
	[DISTRO_DEBIAN] = "Debian", [DISTRO_UBUNTU] = "Ubuntu", [DISTRO_FEDORA] = "Fedora/RHEL", [DISTRO_ARCH] = "Arch",
};

#define EVERYWHERE(text) { text, text, text, text }

static const char *const remedies[N_REMEDIES][N_DISTROS] = {
	[REMEDY_NETEM] = { "apt-get install linux-image-amd64 (cloud kernels lack sch_netem), reboot; modprobe sch_netem",
		"apt-get install linux-modules-extra-$(uname -r); modprobe sch_netem",
		"dnf install kernel-modules-extra; modprobe sch_netem", "modprobe sch_netem (kernel package linux)" },
	[REMEDY_NFQUEUE] = { "apt-get install iptables; modprobe xt_NFQUEUE nfnetlink_queue",
		"apt-get install iptables; modprobe xt_NFQUEUE nfnetlink_queue",
		"dnf install iptables-nft; modprobe xt_NFQUEUE nfnetlink_queue",
		"pacman -S iptables; modprobe xt_NFQUEUE nfnetlink_queue" },
	[REMEDY_UML] = { "apt-get install user-mode-linux", "apt-get install user-mode-linux", NULL, NULL },
	[REMEDY_USERNS] = { "sysctl kernel.unprivileged_userns_clone=1, or run as root",
		"sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run as root",
		"sysctl user.max_user_namespaces=15000, or run as root",
		"sysctl kernel.unprivileged_userns_clone=1, or run as root" },
	[REMEDY_GNUPLOT] = { "apt-get install gnuplot-nox", "apt-get install gnuplot-nox", "dnf install gnuplot-minimal",
		"pacman -S gnuplot" },
	[REMEDY_LESS] = { "apt-get install less", "apt-get install less", "dnf install less", "pacman -S less" },
	[REMEDY_PROGRAMS] = EVERYWHERE("meson install -C build: the programs belong beside `bace'"),
	[REMEDY_NCCL] = { "the NVIDIA driver, then apt-get install libnccl2 libnccl-dev from NVIDIA's repository; build anew",
		"ubuntu-drivers install, then apt-get install libnccl2 libnccl-dev from NVIDIA's repository; build anew",
		"the NVIDIA driver, then dnf install libnccl libnccl-devel from NVIDIA's repository; build anew",
		"pacman -S nvidia cuda nccl; build anew" },
	[REMEDY_RTPRIO] = EVERYWHERE("run as root, or `@bace - rtprio 10' in /etc/security/limits.conf"),
	[REMEDY_STORE] = EVERYWHERE("--store FILE in a folder that can be written to"),
	[REMEDY_PROFILES] = EVERYWHERE("meson install -C build, or BACE_PROFILES=FOLDER"),
	[REMEDY_CORES] = EVERYWHERE("a larger testbed.scale.time, fewer jobs at once, or ranks = \"region\""),
	[REMEDY_SSH] = { "apt-get install openssh-client", "apt-get install openssh-client", "dnf install openssh-clients",
		"pacman -S openssh" },
	[REMEDY_SLURM] = { "apt-get install slurm-client", "apt-get install slurm-client", "dnf install slurm",
		"pacman -S slurm-llnl" },
};

/* The value of KEY= in /etc/os-release, without quotes; "" if none. */
static void os_value(const char *text, const char *key, char *out, size_t cap)
{
	size_t n = strlen(key);

	*out = '\0';
	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
		if (strncmp(p, key, n) || p[n] != '=')
			continue;
		p += n + 1;
		p += *p == '"';
		snprintf(out, cap, "%.*s", (int)strcspn(p, "\"\n"), p);
		return;
	}
}

enum distro distro_here(void)
{
	static const struct {
		const char *word;
		enum distro d;
	} words[] = { { "ubuntu", DISTRO_UBUNTU }, { "debian", DISTRO_DEBIAN }, { "fedora", DISTRO_FEDORA },
		{ "rhel", DISTRO_FEDORA }, { "centos", DISTRO_FEDORA }, { "arch", DISTRO_ARCH } };
	CLEANUP_FREE char *text = NULL;
	char id[64], like[128], both[200];

	if (bace_read_file("/etc/os-release", 65536, &text, NULL, NULL))
		return N_DISTROS;
	os_value(text, "ID", id, sizeof(id));
	os_value(text, "ID_LIKE", like, sizeof(like));
	snprintf(both, sizeof(both), "%s %s", id, like);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strstr(both, words[i].word))
			return words[i].d;
	return N_DISTROS;
}

const char *remedy_text(enum remedy r, enum distro d)
{
	return d < N_DISTROS ? remedies[r][d] : NULL;
}
