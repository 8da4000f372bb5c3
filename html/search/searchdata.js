var indexSectionsWithContent =
{
  0: "abcdefghiklmnopqrstuvwx",
  1: "defhkmrs",
  2: "k",
  3: "abcdefghikmoprstv",
  4: "abcdefghiklmnopqrstuvwx",
  5: "knpt",
  6: "k",
  7: "k"
};

var indexSectionNames =
{
  0: "all",
  1: "classes",
  2: "files",
  3: "functions",
  4: "variables",
  5: "typedefs",
  6: "enumvalues",
  7: "defines"
};

var indexSectionLabels =
{
  0: "All",
  1: "Data Structures",
  2: "Files",
  3: "Functions",
  4: "Variables",
  5: "Typedefs",
  6: "Enumerator",
  7: "Macros"
};

