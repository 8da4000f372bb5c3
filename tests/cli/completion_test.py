#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --help names is offered by the completion of each shell and described in the manual page.

The shells run the scripts of completions/; one that is not installed is skipped.
"""
import os
import re
import shutil
import subprocess
import unittest

import command

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def help_of(*words):
    code, out, _ = command.run(*words, "--help")
    assert code == 0
    return out


def subcommands():
    return re.findall(r"^  (\w+) ", help_of().split("Subcommands:")[1], re.M)


def options(text):
    """All spellings of the options that a help text names."""
    return {name for names in re.findall(r"^  (-[-\w,]+)", text, re.M) for name in names.split(",")}


def script(name):
    return os.path.join(SOURCE, "completions", name)


def bash(*words):
    """What bash offers for the last of these words."""
    line = "COMP_WORDS=(kvcache " + " ".join(f"'{word}'" for word in words) + f"); COMP_CWORD={len(words)}"
    return shell("bash", "--norc", "-c", f'source "{script("kvcache.bash")}"; {line}; _kvcache; printf "%s\\n" "${{COMPREPLY[@]}}"')


def zsh(*words):
    line = "words=(kvcache " + " ".join(f"'{word}'" for word in words) + f"); CURRENT={len(words) + 1}"
    functions = 'compadd() { print -l -- "${(@P)@[-1]}" }; _files() { print -l -- ${words[CURRENT]}*(N) }'
    return shell("zsh", "-f", "-c", f'{functions}; complete_it() {{ local -a words; {line}; source "{script("kvcache.zsh")}" }}; complete_it')


def fish(*words):
    lines = shell("fish", "--no-config", "-c", f'source "{script("kvcache.fish")}"; complete -C "kvcache {" ".join(words)}"')
    return [line.split("\t")[0] for line in lines]


def shell(*arguments):
    environment = dict(os.environ, PATH=os.path.dirname(command.BINARY) + os.pathsep + os.environ["PATH"], LC_ALL="C.UTF-8")
    done = subprocess.run(arguments, cwd=os.path.join(SOURCE, "examples"), env=environment, capture_output=True, text=True, check=False)
    if done.stderr:
        raise AssertionError(done.stderr)
    return [line for line in done.stdout.splitlines() if line]


class Completion:
    """For each shell: a class that says how it completes."""

    def test_subcommands_are_offered(self):
        self.assertGreaterEqual(len(subcommands()), 6)
        self.assertEqual(sorted(self.complete("")), sorted(subcommands()))
        self.assertEqual(self.complete("repl"), ["replay"])

    def test_every_option_of_help_is_offered(self):
        for words in [()] + [(name,) for name in subcommands()]:
            named = options(help_of(*words))
            self.assertIn("--help", named)
            self.assertEqual({word for word in named if word.startswith("--")}, set(self.complete(*words, "--")), words)

    def test_values_of_a_set_are_offered(self):
        self.assertEqual(sorted(self.complete("bench", "--dtype", "")), sorted(["fp16", "bf16", "fp32", "fp8", "int8", "int4"]))
        self.assertEqual(self.complete("bench", "--dtype", "int8", "at"), ["attention"])
        self.assertEqual(self.complete("replay", "--num-blocks", ""), [])

    def test_models_and_files_are_offered(self):
        self.assertEqual(self.complete("estimate", "llama-3.1-8"), ["llama-3.1-8b"])
        self.assertIn("CMakeLists.txt", self.complete("replay", "--verify", "CMake"))


class Bash(Completion, unittest.TestCase):
    complete = staticmethod(bash)


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(Completion, unittest.TestCase):
    complete = staticmethod(zsh)


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class Fish(Completion, unittest.TestCase):
    complete = staticmethod(fish)


class ManualPage(unittest.TestCase):
    def test_describes_what_help_names_and_no_more(self):
        with open(os.path.join(SOURCE, "docs", "kvcache.1"), encoding="utf-8") as file:
            page = file.read().replace("\\-", "-")
        sections = dict(re.findall(r'^\.SH "kvcache (\w+)"\n(.*?)(?=^\.SH)', page, re.M | re.S))
        self.assertEqual(sorted(sections), sorted(subcommands()))
        for name, text in sections.items():
            described = {word for line in re.findall(r"^\.TP\n\.(?:B|BI|BR) (.*)$", text, re.M)
                         for word in re.findall(r"(?<![-\w])-[-\w]+", line)}
            self.assertEqual(described, options(help_of(name)) - {"-h", "--help"}, name)

    def test_the_synopsis_names_every_option_or_says_options(self):
        with open(os.path.join(SOURCE, "docs", "kvcache.1"), encoding="utf-8") as file:
            page = file.read().replace("\\-", "-")
        lines = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH", page, re.M | re.S)[1].split(".br\n")
        commands = {match[1]: line for line in lines if (match := re.match(r"\.B kvcache (\w+)\n", line))}
        self.assertEqual(sorted(commands), sorted(subcommands()))
        for name, line in commands.items():
            if ".RI [ options ]" not in line:
                self.assertEqual(set(re.findall(r"--\w+", line)), {word for word in options(help_of(name)) if word.startswith("--")} - {"--help"}, name)


if __name__ == "__main__":
    command.main()
