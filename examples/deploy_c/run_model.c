/* Runs a packaged model from C: no Python, no PyTorch, only the machine's library.
 *
 *     run_model model.ftm < inputs.raw > outputs.raw
 *
 * Reads all inputs of the model, one after another, as raw bytes, and writes the results of its program in the same
 * way.  The file's format is described in backend/ftm_backend/runtime/package_file.py and model.py.  A model that draws random
 * numbers is given zeros as seed and offset. */
#include <ftm_machine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma pack(push, 1)
typedef struct {
    char name[48];
    uint64_t offset, size;
    unsigned char digest[32]; /* BLAKE2b; not looked at here */
} section;
#pragma pack(pop)

typedef struct {
    unsigned char *bytes;
    size_t size;
    const section *table;
    uint32_t sections;
} package;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "run_model: %s: %s\n", what, why);
    exit(1);
}

static void *allocate(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (memory == NULL) fail("memory", "there is none left");
    return memory;
}

static package read_package(const char *path) {
    package p = {0};
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) fail(path, "cannot be read");
    p.size = (size_t)ftell(file);
    rewind(file);
    p.bytes = allocate(p.size);
    if (fread(p.bytes, 1, p.size, file) != p.size) fail(path, "cannot be read");
    fclose(file);
    uint32_t version = 0;
    if (p.size < 16 || memcmp(p.bytes, "FTMMODEL", 8) != 0) fail(path, "is no packaged model");
    memcpy(&version, p.bytes + 8, 4);
    memcpy(&p.sections, p.bytes + 12, 4);
    if (version != 1) fail(path, "has another version");
    if (p.sections > (p.size - 16) / sizeof(section)) fail(path, "is cut short");
    p.table = (const section *)(p.bytes + 16);
    for (uint32_t i = 0; i < p.sections; ++i)
        if (p.table[i].offset > p.size || p.table[i].size > p.size - p.table[i].offset) fail(path, "is cut short");
    return p;
}

static unsigned char *find(const package *p, const char *name, uint64_t *size) {
    for (uint32_t i = 0; i < p->sections; ++i)
        if (strncmp(p->table[i].name, name, sizeof p->table[i].name) == 0) {
            *size = p->table[i].size;
            return p->bytes + p->table[i].offset;
        }
    fail(name, "there is no such section");
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) fail("usage", "run_model model.ftm < inputs.raw > outputs.raw");
    package p = read_package(argv[1]);
    uint64_t size = 0, parameter_bytes = 0;
    char message[4096];

    ftm_config config = {.struct_size = sizeof config};
    ftm_machine *machine = ftm_open(&config, message, sizeof message);
    if (machine == NULL) fail("machine", message);
    const unsigned char *image = find(&p, "image", &size);
    ftm_program *program = ftm_load(machine, image, size, message, sizeof message);
    if (program == NULL) fail(argv[1], message);

    /* Where each input of the program comes from: a section with a weight, or an input of the model.  Inputs of the
     * model are read here in order; each is as long as the farthest that the program reads of it. */
    const int32_t inputs = ftm_input_count(program), outputs = ftm_output_count(program);
    const unsigned char *parameters = find(&p, "parameters", &parameter_bytes);
    if (parameter_bytes != (uint64_t)inputs * 16) fail(argv[1], "does not fit its program");
    uint64_t *ends = calloc((size_t)inputs + 1, sizeof *ends);
    void **given = calloc((size_t)inputs + 1, sizeof *given), **addresses = calloc((size_t)inputs + 1, sizeof *addresses);
    for (int32_t i = 0; i < inputs; ++i) {
        int64_t pair[2];
        ftm_tensor_info info;
        memcpy(pair, parameters + 16 * i, 16);
        ftm_input_info(program, i, &info);
        if (pair[0] < 0 && -1 - pair[0] < inputs && pair[1] >= 0 && (uint64_t)pair[1] + info.bytes > ends[-1 - pair[0]])
            ends[-1 - pair[0]] = (uint64_t)pair[1] + info.bytes;
    }
    for (int32_t k = 0; k < inputs; ++k)
        if (ends[k] != 0) {
            given[k] = allocate(ends[k]);
            if (fread(given[k], 1, ends[k], stdin) != ends[k]) fail("standard input", "ends before all inputs are read");
        }
    for (int32_t i = 0; i < inputs; ++i) {
        int64_t pair[2];
        char name[32];
        ftm_tensor_info info;
        memcpy(pair, parameters + 16 * i, 16);
        ftm_input_info(program, i, &info);
        if (pair[0] < 0) {
            if (-1 - pair[0] >= inputs || pair[1] < 0) fail(argv[1], "does not fit its program");
            addresses[i] = (char *)given[-1 - pair[0]] + pair[1];
        } else {
            snprintf(name, sizeof name, "weight.%lld", (long long)pair[0]);
            unsigned char *weight = find(&p, name, &size);
            if (pair[1] < 0 || (uint64_t)pair[1] > size || info.bytes > size - (uint64_t)pair[1])
                fail(argv[1], "does not fit its program");
            addresses[i] = weight + pair[1];
        }
    }
    void **results = calloc((size_t)outputs + 1, sizeof *results);
    for (int32_t i = 0; i < outputs; ++i) {
        ftm_tensor_info info;
        ftm_output_info(program, i, &info);
        results[i] = allocate(info.bytes);
    }
    int64_t *scalars = calloc((size_t)ftm_scalar_count(program) + 1, sizeof *scalars);

    ftm_job *job = ftm_submit(machine, program, addresses, results, scalars, NULL, NULL, NULL, message, sizeof message);
    if (job == NULL || ftm_wait(job, message, sizeof message) != 0) fail("the program", message);
    for (int32_t i = 0; i < outputs; ++i) {
        ftm_tensor_info info;
        ftm_output_info(program, i, &info);
        fwrite(results[i], 1, info.bytes, stdout);
    }
    ftm_close(machine);
    return 0;
}
