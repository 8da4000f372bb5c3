// SPDX-License-Identifier: Apache-2.0
// The folder of a test that holds the bytes which it expects.
#pragma once

extern const char* const kGoldenFolder;
