/* A library that loads others: by names that its own RUNPATH finds. */
#include <dlfcn.h>

int opener_word(void) { return 1; }

void *opener_open(const char *name, int flags) {
    void *library = dlopen(name, flags);
    return library; /* no branch to it: the call comes from here */
}
