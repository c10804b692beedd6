/* cat, linked statically: the target of exec_live's "static" mode, which no preload can reach. */
#include <unistd.h>

int main(void) {
    char buffer[10000];
    for (ssize_t n; (n = read(0, buffer, sizeof buffer)) != 0;)
        for (ssize_t at = 0, w; at < n; at += w)
            if (n < 0 || (w = write(1, buffer + at, (size_t)(n - at))) < 0)
                return 1;
    return 0;
}
