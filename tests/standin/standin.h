/*
 * A stand-in for libcudart, libnccl, cuBLAS and NVML, for machines without a GPU:
 * streams are threads, the GPU's memory is the host's, NCCL moves bytes over TCP
 * between processes and behaves, in what the worker relies on, as its
 * documentation says: calls that do not block, calls of one stream in order,
 * a group over when all in it is, connections made when they are first used, a
 * dead peer reported as an asynchronous error, a silent one not at all, what has
 * failed hanging until it is aborted. It proves the worker's code paths, and
 * nothing about NCCL, a GPU, or their speed.
 *
 * $BACE_STANDIN is a list of KEY=VALUE, separated by commas:
 *   gpus=N		how many there are (1)
 *   tflops=F		of a matrix product (2)
 *   largest=N		bytes that can be allocated at once (all that the host has)
 *   path=P		what the log says of the way to every peer ("NET/Socket/0")
 *   network=N		what the log says is used ("Socket")
 *   abort=hang, init=hang, finalize=hang	never comes back, or never is done
 */
#ifndef TESTS_STANDIN_H
#define TESTS_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda_runtime.h>

/* Runs fn(arg) on the stream, after all before it. */
cudaError_t standin_enqueue(cudaStream_t stream, void (*fn)(void *arg), void *arg);
/* The value of a key of $BACE_STANDIN, else `otherwise`. */
const char *standin_option(const char *key, const char *otherwise);
int64_t standin_now_ns(void);

#endif
