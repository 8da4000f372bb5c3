// SPDX-License-Identifier: Apache-2.0
// Carries the precompiled header of the tests: CMakeLists.txt says what is in it.
int main() { return 0; }
