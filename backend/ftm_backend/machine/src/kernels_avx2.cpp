// The inner loops compiled for one instruction set; flags in sources.txt.
#define FTM_ISA avx2
#define FTM_ISA_NAME "avx2"
#include "kernels/all.h"
