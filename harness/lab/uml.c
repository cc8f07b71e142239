#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "harness/lab/lab.h"
#include "harness/lab/procs.h"

#define UML_BINARY "/usr/bin/linux.uml"
#define UML_MODULES "/usr/lib/uml/modules"
#define UML_ARGS_MAX 48

/* ---- around User-Mode Linux: PID 1 of a namespace on the real kernel ---- */

static void exec_uml(int argc, char **argv)
{
	char self[512], init[600], profiles[600];
	const char *from = getenv("BACE_PROFILES");
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *args[UML_ARGS_MAX] = { (char *)UML_BINARY, "mem=1G", "root=/dev/root", "rootfstype=hostfs",
		"rootflags=/", "rw", "quiet", "con0=null,fd:2", "con1=fd:3,fd:4", "con=null", "ssl=null",
		"uml_dir=/run/uml" };
	int k = 12;

	if (n <= 0)
		_exit(127);
	self[n] = '\0';
	snprintf(init, sizeof(init), "init=%s", self);
	args[k++] = init;
	if (from) {
		snprintf(profiles, sizeof(profiles), "BACE_PROFILES=%s", from);
		args[k++] = profiles;
	}
	args[k++] = "--";
	args[k++] = "lab-guest";
	for (int i = 1; i < argc && k < UML_ARGS_MAX - 1; i++)
		args[k++] = argv[i];
	/* All that it writes goes to this namespace's own tmpfs. */
	setenv("HOME", "/run", 1);
	setenv("TMPDIR", "/run", 1);
	signal(SIGPIPE, SIG_DFL);
	execv(UML_BINARY, args);
	fprintf(stderr, "exec " UML_BINARY ": %s\n", strerror(errno));
	_exit(127);
}

int lab_uml_main(int argc, char **argv)
{
	struct bace_err e = { 0 };
	int status = 0;
	pid_t pid, gone;

	if (mkdir("/run/uml", 0700) || (pid = fork()) < 0) {
		fprintf(stderr, "bace lab-uml: %s\n", strerror(errno));
		return BACE_EXIT_FAILED;
	}
	if (pid == 0)
		exec_uml(argc, argv);
	close(4);
	if (proc_watch_life(3, &e)) {
		fprintf(stderr, "bace lab-uml: %s\n", e.msg);
		return BACE_EXIT_FAILED;
	}
	do
		gone = waitpid(-1, &status, 0);
	while (gone != pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : BACE_EXIT_FAILED;
}

/* ---- init inside User-Mode Linux ---- */

static int load_file(const char *path)
{
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST)
		return -errno;
	return 0;
}

static bool line_is_of(const char *line, const char *module)
{
	const char *colon = strchr(line, ':'), *slash;
	size_t len = strlen(module);

	if (!colon)
		return false;
	for (slash = colon; slash > line && slash[-1] != '/'; slash--)
		;
	return !strncmp(slash, module, len) && !strncmp(slash + len, ".ko", 3);
}

/* modules.dep lists what a module needs, the deepest last. */
static int load_line(const char *dir, char *line)
{
	char *words[32], *save = NULL, path[512];
	int n = 0;

	for (char *w = strtok_r(line, ": \n", &save); w && n < 32; w = strtok_r(NULL, " \n", &save))
		words[n++] = w;
	while (n-- > 0) {
		snprintf(path, sizeof(path), "%s/%s", dir, words[n]);
		int rc = load_file(path);

		if (rc)
			return rc;
	}
	return 0;
}

static int load_module(const char *module)
{
	struct utsname u;
	char dir[256], path[300];
	CLEANUP_FREE char *line = NULL;
	size_t cap = 0;
	int rc = -ENOENT;

	uname(&u);
	snprintf(dir, sizeof(dir), UML_MODULES "/%s", u.release);
	snprintf(path, sizeof(path), "%s/modules.dep", dir);
	CLEANUP_FCLOSE FILE *f = fopen(path, "re");
	if (!f)
		return -errno;
	while (getline(&line, &cap, f) > 0) {
		if (!line_is_of(line, module))
			continue;
		rc = load_line(dir, line);
		break;
	}
	return rc;
}

/* A serial line of our own: kernel messages go elsewhere. */
static int open_channel(void)
{
	struct termios t;
	int fd;

	if (mknod("/run/channel", S_IFCHR | 0600, makedev(4, 1)))
		return -errno;
	fd = open("/run/channel", O_RDWR | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (tcgetattr(fd, &t))
		return -errno;
	cfmakeraw(&t);
	if (tcsetattr(fd, TCSANOW, &t))
		return -errno;
	return fd;
}

static int guest_prepare(void)
{
	static const char *const modules[] = { "veth", "bridge", "sch_htb", "sch_netem", "cls_u32" };
	int rc;

	if (mount("proc", "/proc", "proc", 0, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("tmpfs", "/run", "tmpfs", 0, "mode=755") || mkdir("/run/netns", 0755) ||
	    mkdir("/run/lock", 0755))
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(modules); i++) {
		rc = load_module(modules[i]);
		if (rc) {
			fprintf(stderr, "guest: load module %s: %s\n", modules[i], strerror(-rc));
			return rc;
		}
	}
	return 0;
}

int lab_guest_main(int argc, char **argv)
{
	char in[16], out[16];
	char *args[UML_ARGS_MAX];
	int rc = guest_prepare(), fd = rc ? rc : open_channel(), n = 0;

	if (fd < 0) {
		fprintf(stderr, "guest: %s\n", strerror(-fd));
	} else {
		for (int i = 0; i < argc && n < UML_ARGS_MAX - 5; i++)
			args[n++] = argv[i];
		snprintf(in, sizeof(in), "%d", fd);
		snprintf(out, sizeof(out), "%d", dup(fd));
		args[n++] = "--in";
		args[n++] = in;
		args[n++] = "--out";
		args[n++] = out;
		args[n] = NULL;
		lab_inner_main(n, args);
	}
	sync();
	reboot(RB_POWER_OFF);
	return BACE_EXIT_FAILED;
}
