#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# java.sh <folder of java, javac and jar> <kvcache.jar> <folder of programs> <folder of the Maven repository> <version>: a program outside the
# tree takes a copy of the jar and nothing else; then other native parts, and Maven reads what is published.
set -eu
bin=$1 jar=$2 sources=$3 repository=$4 version=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset KVC_JAVA_LIBRARY LD_LIBRARY_PATH
fail() {
  echo "$1" >&2
  exit 1
}

cp "$jar" "$work/kvcache.jar"
cd "$work"
"$bin/javac" -cp kvcache.jar -d classes "$sources"/*.java
mkdir tmp
"$bin/java" -Djava.io.tmpdir="$work/tmp" -cp kvcache.jar:classes Main
"$bin/java" -cp kvcache.jar:classes Engine | tee out
grep -qx "12 done, 528 tokens reused, 3 preempted" out
[ -z "$(ls tmp)" ] || fail "the native part was left in the temporary folder"

# What is named comes first: with these, the jar's own cannot be unpacked.
mkdir unpacked
(cd unpacked && "$bin/jar" xf ../kvcache.jar)
native=$(find "$work/unpacked" -name libkvcache_java.so)
run="$bin/java -Djava.io.tmpdir=$work/none -cp kvcache.jar:classes"
$run Main >out 2>&1 && fail "the jar was unpacked into a folder that does not exist"
grep -q "name it by -Dkvcache.library=" out || fail "$(cat out)"
$run -Dkvcache.library="$native" Main
KVC_JAVA_LIBRARY=$native $run Main
$run -Djava.library.path="/none:$(dirname "$native")" Main
$run -Dkvcache.library=/none/x.so -Djava.library.path="$(dirname "$native")" Main >out 2>&1 && fail "a file that does not exist was passed over"

# A native part of another version.
sed 's/^Implementation-Version: .*/Implementation-Version: 9.9.9/' unpacked/META-INF/MANIFEST.MF >manifest
"$bin/jar" --create --file other.jar --manifest manifest -C unpacked io
"$bin/java" -cp other.jar:classes Main >out 2>&1 && fail "a native part of another version was loaded"
grep -q "is of version $version, the jar of 9.9.9" out || fail "$(cat out)"

# Layout, and Maven if it is there: without a network and without plugins it resolves the POM from the repository.
for file in pom.xml pom.properties; do
  [ -s "unpacked/META-INF/maven/io.kvcache/kvcache/$file" ] || fail "the jar has no $file"
done
grep -q "^version=$version$" unpacked/META-INF/maven/io.kvcache/kvcache/pom.properties || fail "pom.properties has another version"
published="$repository/io/kvcache/kvcache/$version/kvcache-$version"
cmp "$published.jar" "$jar"
[ -s "$published-sources.jar" ]
cmp "$published.pom" unpacked/META-INF/maven/io.kvcache/kvcache/pom.xml
python3 -c 'import sys, xml.etree.ElementTree as e; sys.exit(e.parse(sys.argv[1]).getroot().tag != "{http://maven.apache.org/POM/4.0.0}project")' "$published.pom"
if command -v mvn >/dev/null; then
  cat >pom.xml <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId><artifactId>engine</artifactId><version>1</version>
  <repositories><repository><id>kvcache</id><url>file://$repository</url></repository></repositories>
  <dependencyManagement><dependencies>
    <dependency><groupId>io.kvcache</groupId><artifactId>kvcache</artifactId><version>$version</version><type>pom</type><scope>import</scope></dependency>
  </dependencies></dependencyManagement>
</project>
END
  mvn -B -q -Duser.home="$work" -Dmaven.repo.local="$work/m2" validate
  [ -s "m2/io/kvcache/kvcache/$version/kvcache-$version.pom" ] || fail "Maven did not take the POM"
fi
