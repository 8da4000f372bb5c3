/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is no backend. */
__attribute__((visibility("default"))) int some_function(void);
int some_function(void) { return 1; }
