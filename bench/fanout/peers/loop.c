// loop.c writes the same frame to each of N sockets in a loop: what fan-out costs where
// nothing is done but the system calls. Started by main.go, as the other servers are:
//
//	c VIEWERS MESSAGES RATE FRAME-FILE
//
// It prints its port, waits for a line, writes RATE frames a second to all, waits for another line,
// and prints the CPU seconds that this took and the number of writes.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double cpu(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void fail(const char *what) {
  perror(what);
  exit(1);
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  int viewers = atoi(argv[1]), messages = atoi(argv[2]), rate = atoi(argv[3]);
  static char frame[1 << 16];
  FILE *f = fopen(argv[4], "r");
  if (!f) fail(argv[4]);
  size_t length = fread(frame, 1, sizeof frame, f);
  int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof a;
  if (bind(listener, (struct sockaddr *)&a, size) || listen(listener, 1024) || getsockname(listener, (struct sockaddr *)&a, &size)) fail("listen");
  printf("%d\n", ntohs(a.sin_port));
  fflush(stdout);
  int *fds = calloc(viewers, sizeof *fds);
  for (int i = 0; i < viewers; i++) {
    if ((fds[i] = accept(listener, NULL, NULL)) < 0) fail("accept");
    setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  getchar();
  double before = cpu();
  long writes = 0;
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  for (int m = 0; m < messages; m++) {
    for (int i = 0; i < viewers; i++) {
      if (write(fds[i], frame, length) != (ssize_t)length) fail("write");
      writes++;
    }
    next.tv_nsec += 1000000000L / rate;
    if (next.tv_nsec >= 1000000000L) next.tv_nsec -= 1000000000L, next.tv_sec++;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
  }
  getchar();  // all have arrived
  printf("{\"cpu_seconds\":%f,\"deliveries\":%ld}\n", cpu() - before, writes);
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
