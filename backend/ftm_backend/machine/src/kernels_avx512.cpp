// The inner loops compiled for one instruction set; flags in sources.txt.
#define FTM_ISA avx512
#define FTM_ISA_NAME "avx512"
#include "kernels/all.h"
