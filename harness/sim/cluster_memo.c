#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sim/cluster.h"

/* Beyond this everything is forgotten: a bound on memory, without which a week
 * of link changes would be kept. */
#define MEMO_MAX_ENTRIES 65536
#define MEMO_MAX_KEYS (8u << 20)

static uint64_t hash_key(const int32_t *key, size_t len)
{
	uint64_t h = len;

	for (size_t i = 0; i < len; i++) {
		h = (h ^ (uint32_t)key[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

static const struct memo_entry *find(const struct step_memo *m, const int32_t *key, size_t len, uint64_t h)
{
	for (size_t i = h & (m->n_slots - 1); m->slots[i]; i = (i + 1) & (m->n_slots - 1)) {
		const struct memo_entry *e = &m->v[m->slots[i] - 1];

		if (e->hash == h && e->key_len == len &&
		    !memcmp(m->keys + e->key, key, len * sizeof(*key)))
			return e;
	}
	return NULL;
}

const struct step_estimate *memo_find(const struct step_memo *m, const int32_t *key, size_t len)
{
	const struct memo_entry *e = m->n ? find(m, key, len, hash_key(key, len)) : NULL;

	return e ? m->values + e->value : NULL;
}

static void insert(struct step_memo *m, size_t entry)
{
	size_t i = m->v[entry].hash & (m->n_slots - 1);

	while (m->slots[i])
		i = (i + 1) & (m->n_slots - 1);
	m->slots[i] = (uint32_t)entry + 1;
}

static void forget(struct step_memo *m)
{
	memset(m->slots, 0, m->n_slots * sizeof(*m->slots));
	m->n = m->n_keys = m->n_values = 0;
}

static int make_room(struct step_memo *m, size_t len, size_t n)
{
	if (m->n_slots && (m->n >= MEMO_MAX_ENTRIES || m->n_keys + len > MEMO_MAX_KEYS))
		forget(m);
	if ((m->n == m->cap && bace_grow(&m->v, &m->cap, m->n + 1, sizeof(*m->v))) ||
	    (m->n_keys + len > m->cap_keys &&
	     bace_grow(&m->keys, &m->cap_keys, m->n_keys + len, sizeof(*m->keys))) ||
	    (m->n_values + n > m->cap_values &&
	     bace_grow(&m->values, &m->cap_values, m->n_values + n, sizeof(*m->values))))
		return -ENOMEM;
	if (2 * (m->n + 1) <= m->n_slots)
		return 0;
	size_t n_slots = m->n_slots ? 2 * m->n_slots : 256;
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	free(m->slots);
	m->slots = slots;
	m->n_slots = n_slots;
	for (size_t i = 0; i < m->n; i++)
		insert(m, i);
	return 0;
}

int memo_add(struct step_memo *m, const int32_t *key, size_t len, const struct step_estimate *v, size_t n)
{
	if (len > MEMO_MAX_KEYS)
		return 0;
	if (make_room(m, len, n))
		return -ENOMEM;
	m->v[m->n] = (struct memo_entry){ .hash = hash_key(key, len), .key = m->n_keys,
		.key_len = (uint32_t)len, .value = m->n_values, .n_values = (uint32_t)n };
	memcpy(m->keys + m->n_keys, key, len * sizeof(*key));
	memcpy(m->values + m->n_values, v, n * sizeof(*v));
	m->n_keys += len;
	m->n_values += n;
	insert(m, m->n++);
	return 0;
}

struct step_memo *step_memo_new(void)
{
	return calloc(1, sizeof(struct step_memo));
}

void step_memo_free(struct step_memo *m)
{
	if (!m)
		return;
	free(m->slots);
	free(m->v);
	free(m->keys);
	free(m->values);
	free(m);
}
