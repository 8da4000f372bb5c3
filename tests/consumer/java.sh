#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# java.sh <javac> <java> <kvcache.jar> <folder of Main.java>: a program outside the tree takes a copy of the jar and nothing else.
set -eu
javac=$1 java=$2 jar=$3 sources=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$jar" "$work/kvcache.jar"
cd "$work"
"$javac" -cp kvcache.jar -d classes "$sources/Main.java"
"$java" -cp kvcache.jar:classes Main
