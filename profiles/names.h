/* Words of the config files for the enums of profiles.h, NULL-terminated, in
 * the order of the enums. */
#ifndef BACE_PROFILES_NAMES_H
#define BACE_PROFILES_NAMES_H

extern const char *const schedule_names[];
extern const char *const order_names[];
extern const char *const start_names[];
extern const char *const stall_names[];
extern const char *const grow_names[];
extern const char *const prefer_names[];
extern const char *const jitter_names[];
extern const char *const noise_names[];
extern const char *const rank_names[];
extern const char *const wan_names[];
extern const char *const backend_names[];
extern const char *const shape_mode_names[];
extern const char *const shape_delay_names[];

#endif
