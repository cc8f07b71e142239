/* What may be missing on a host, and how each family of systems gets it. */
#ifndef BACE_CMD_DOCTOR_H
#define BACE_CMD_DOCTOR_H

#include "common/common.h"

enum distro { DISTRO_DEBIAN, DISTRO_UBUNTU, DISTRO_FEDORA, DISTRO_ARCH, N_DISTROS };
enum remedy { REMEDY_NONE, REMEDY_NETEM, REMEDY_NFQUEUE, REMEDY_UML, REMEDY_USERNS, REMEDY_GNUPLOT, REMEDY_LESS,
	REMEDY_PROGRAMS, REMEDY_NCCL, REMEDY_RTPRIO, REMEDY_STORE, REMEDY_PROFILES, REMEDY_CORES, REMEDY_SSH,
	REMEDY_SLURM, N_REMEDIES };

extern const char *const distro_names[N_DISTROS];
/* Of this host, by /etc/os-release; N_DISTROS: another. */
enum distro distro_here(void);
/* The command or setting; NULL: that system has none. */
const char *remedy_text(enum remedy r, enum distro d);

#endif
