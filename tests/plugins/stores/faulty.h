/* SPDX-License-Identifier: Apache-2.0 */
/* How a test steers the plug-ins of faulty.c, and what it asks them; found with dlsym(). Any thread. */
#ifndef FAULTY_H
#define FAULTY_H
#include <stdint.h>

enum faulty_mode {
  FAULTY_NONE,
  /* What it says. */
  FAULTY_FAILED,    /* KVC_PAGE_FAILED, and asks nobody */
  FAULTY_TIMEOUT,   /* waits until the deadline, then KVC_PAGE_TIMEOUT */
  FAULTY_UNKNOWN,   /* results that are none: 77, -1, KVC_PAGE_WAITING, KVC_PAGE_CANCELLED, in turn */
  FAULTY_SILENT,    /* leaves the results as they came */
  FAULTY_HALF,      /* the second half of the items fails */
  FAULTY_READ_ONLY, /* puts and removes fail, as on a replica */
  /* What a get gives, saying KVC_PAGE_OK. */
  FAULTY_FLIP_DATA,    /* a bit of the data is wrong */
  FAULTY_FLIP_HEADER,  /* a bit of the header is wrong */
  FAULTY_OTHER_VALUE,  /* header and data of another key */
  FAULTY_OTHER_DATA,   /* the right header, data of another key */
  FAULTY_SHORT,        /* the second half of the data is not written */
  FAULTY_NOTHING,      /* neither header nor data are written */
  FAULTY_ALWAYS_THERE, /* a value for keys that have none: the last that was put */
  FAULTY_OTHER_PLACE   /* points item.data at its own memory */
};

/* Waits `milliseconds` in each call; as long as `held`, it does not return from any. */
typedef void faulty_set_function(int mode, int milliseconds, int held);
/* Calls so far, and items in them; the deadline of the last one; calls that are in it now. */
typedef struct faulty_counts {
  uint64_t calls, items, puts, gets, removes, deadline_ns, inside;
} faulty_counts;
typedef void faulty_read_function(faulty_counts* counts);

#endif
