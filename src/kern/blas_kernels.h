/* blas_kernels.h - may products with weights go through OpenBLAS (the kernel class `blas`)? */
#ifndef GRPO_KERN_BLAS_KERNELS_H
#define GRPO_KERN_BLAS_KERNELS_H

/* NULL when sgemm has passed the check of blas_kernels.c; else the reason why it cannot be used.
 * The check runs once. */
const char *blas_refusal(void);

#endif
