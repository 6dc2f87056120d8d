// The inner loops compiled for one instruction set; flags in sources.txt.
#define FTM_ISA portable
#define FTM_ISA_NAME "portable"
#include "kernels/all.h"
