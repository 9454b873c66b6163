// What the search shows first: for a question with `driver` or an option, the commands. The texts of files and of
// changes come last. Sphinx takes all of this or nothing, so the numbers below `score` are its own.
const OF_COMMANDS = /\bdriver\b|(^|\s)--\w/.test(new URLSearchParams(location.search).get("q"));
var Scorer = {
  score: ([docname, , , , score]) => {
    if (OF_COMMANDS && docname === "cli") return score + 20;
    return /^(source\/|changelog$|contributing$)/.test(docname) ? score - 2 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
