/* A plug-in: it reads and writes what it is given, and has a function of a name that the program has, too. */
#include <sys/socket.h>
#include <unistd.h>

int opener_word(void) { return 2; }

int plug_word(void) { return opener_word(); }

static ssize_t (*const receive)(int, void *, size_t, int) = recv;

ssize_t plug_read(int fd, void *to, size_t length) { return read(fd, to, length); }

ssize_t plug_receive(int fd, void *to, size_t length) {
    ssize_t (*const volatile *receives)(int, void *, size_t, int) = &receive;
    return (*receives)(fd, to, length, 0);
}

ssize_t plug_write(int fd, const void *from, size_t length) { return write(fd, from, length); }
