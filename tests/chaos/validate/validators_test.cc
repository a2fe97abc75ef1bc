// Each validator is given a history in which all is well, which it must find facts in and nothing wrong with,
// and histories with one thing wrong, each of which it must name.

#include "tests/chaos/validate/validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace kcache::chaos {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Files = std::map<std::string, std::string>;

Verdict Judge(Verdict (*check)(const Run&), const Files& files) {
  std::vector<HistoryFile> histories;
  for (const auto& [name, text] : files) {
    auto parsed = ParseHistory(name, text);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (parsed.ok()) histories.push_back(*std::move(parsed));
  }
  return check(*Run::FromFiles(std::move(histories)));
}

void ExpectClean(const Verdict& verdict, uint64_t facts) {
  EXPECT_THAT(verdict.violations, IsEmpty());
  EXPECT_EQ(verdict.facts, facts);
}

void ExpectFound(const Verdict& verdict, const std::string& what) {
  EXPECT_THAT(verdict.violations, ElementsAre(HasSubstr(what)));
}

std::string Ms(uint64_t milliseconds) { return std::to_string(milliseconds * kMillisecond); }

// ---- reading ------------------------------------------------------------------------------------

TEST(History, WhatIsWrittenIsReadBack) {
  auto parsed = ParseHistory("x", "12 kind number=7 text=a%20b%25%0a empty=\n13 other\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_THAT(parsed->records, SizeIs(2));
  EXPECT_EQ(parsed->records[0].time, 12u);
  EXPECT_EQ(parsed->records[0].Number("number"), 7u);
  EXPECT_EQ(parsed->records[0].Text("text"), "a b%\n");
  EXPECT_EQ(parsed->records[0].Text("empty"), "");
  EXPECT_EQ(parsed->records[0].Text("absent"), "");
  EXPECT_EQ(parsed->last_time(), 13u);
}

TEST(History, ALineThatWasCutOffIsLeftOutAndGarbageIsRefused) {
  auto cut = ParseHistory("x", "12 kind a=1\n13 ki");
  ASSERT_TRUE(cut.ok());
  EXPECT_THAT(cut->records, SizeIs(1));
  auto garbage = ParseHistory("daemon-1", "12 kind a=1\nhello\n14 kind\n");
  ASSERT_FALSE(garbage.ok());
  EXPECT_THAT(std::string(garbage.status().message()), HasSubstr("daemon-1, line 2"));
}

TEST(History, Pairs) {
  EXPECT_THAT(ParsePairs("3.1,4.2,"), ElementsAre(std::pair(3u, 1u), std::pair(4u, 2u)));
  EXPECT_THAT(ParsePairs("0:17"), ElementsAre(std::pair(0u, 17u)));
  EXPECT_THAT(ParsePairs(""), IsEmpty());
}

// ---- 1: nothing executes after its release ------------------------------------------------------

constexpr char kHostHead[] =
    "1 host instance=aa context=1 generation=1\n"
    "2 slot slot=0 incarnation=1 kernel=7\n";

TEST(ExecutesAfterRelease, ALaunchThatIsWaitedForBeforeTheReleaseIsFine) {
  ExpectClean(Judge(NothingExecutesAfterRelease,
                    {{"host-1", std::string(kHostHead) +
                                    "3 launch queue=1 kernel=7\n4 marker queue=1 marker=9\n"
                                    "5 waited marker=9\n6 release kernel=7\n7 close\n"}}),
              2);
}

TEST(ExecutesAfterRelease, ALaunchBehindTheReleaseIsFound) {
  ExpectFound(Judge(NothingExecutesAfterRelease,
                    {{"host-1", std::string(kHostHead) +
                                    "6 release kernel=7\n7 launch queue=1 kernel=7\n"}}),
              "kernel 7 (slot 0.1) was launched after its release");
}

TEST(ExecutesAfterRelease, AReleaseOfWhatStillRunsIsFound) {
  // The marker stands for the first launch only.
  ExpectFound(Judge(NothingExecutesAfterRelease,
                    {{"host-1", std::string(kHostHead) +
                                    "3 launch queue=1 kernel=7\n4 marker queue=1 marker=9\n"
                                    "5 launch queue=1 kernel=7\n6 waited marker=9\n"
                                    "7 release kernel=7\n"}}),
              "was released while it ran");
}

TEST(ExecutesAfterRelease, ALaunchBehindTheCloseIsFound) {
  ExpectFound(Judge(NothingExecutesAfterRelease,
                    {{"host-1", std::string(kHostHead) + "6 close\n7 launch queue=1 kernel=7\n"}}),
              "after its context was closed");
}

// ---- 2: releases wait for holders ---------------------------------------------------------------

std::string HolderUntil(const std::string& what) {
  return "1 daemon instance=aa\n"
         "2 context context=1 state=CREATING device=Fake:0 domain=uid:0\n"
         "3 session-opened session=5 pid=50 domain=uid:0\n"
         "4 granted session=5 context=1 slot=0 incarnation=1\n"
         "5 drain operation=op context=1 kind=clear grace_ms=10 slots=0.1,\n" +
         what;
}

Files ReleaseAt(uint64_t time, const std::string& daemon, const std::string& client = "") {
  Files files = {{"daemon-1", daemon},
                 {"host-1", std::string(kHostHead) + std::to_string(time) + " release kernel=7\n"}};
  if (!client.empty()) files["client-1"] = client;
  return files;
}

TEST(ReleaseWaits, AnAckAReturnAnEndAndAGraceThatIsOverAllow) {
  for (const std::string& what :
       {std::string("6 acked operation=op context=1 session=5\n"),
        std::string("6 lease-released session=5 context=1 slot=0 incarnation=1\n"),
        std::string("6 session-ended session=5 why=gone\n"),
        Ms(11) + " grace-over operation=op context=1 session=5\n"}) {
    ExpectClean(Judge(ReleaseWaitsForHolders, ReleaseAt(100 * kMillisecond, HolderUntil(what))), 1);
  }
}

TEST(ReleaseWaits, AReleaseThatNobodyAllowedIsFound) {
  ExpectFound(Judge(ReleaseWaitsForHolders, ReleaseAt(10, HolderUntil(""))),
              "nothing is recorded that would allow it");
}

TEST(ReleaseWaits, AnAckThatComesAfterTheReleaseIsFound) {
  ExpectFound(Judge(ReleaseWaitsForHolders,
                    ReleaseAt(10, HolderUntil("3000 acked operation=op context=1 session=5\n"))),
              "acked only 2 us later");
}

TEST(ReleaseWaits, AnAckOfAnotherOperationThatDoesNotCoverTheSlotIsFound) {
  ExpectFound(
      Judge(ReleaseWaitsForHolders,
            ReleaseAt(10, HolderUntil("6 drain operation=other context=1 kind=clear slots=3.1,\n"
                                      "7 acked operation=other context=1 session=5\n"))),
      "slot 0.1 was released at 10 under session 5");
}

TEST(ReleaseWaits, AGraceThatWasCutShortIsFound) {
  ExpectFound(
      Judge(ReleaseWaitsForHolders,
            ReleaseAt(6 * kMillisecond,
                      HolderUntil(Ms(5) + " grace-over operation=op context=1 session=5\n"))),
      "its grace ended");
}

TEST(ReleaseWaits, AnAckBeforeTheListenerHadReturnedIsFound) {
  const std::string daemon = HolderUntil("8 acked operation=op context=1 session=5\n");
  const std::string client =
      "1 client pid=50 uid=0\n2 session session=5 instance=aa\n3 listening session=5\n"
      "6 event what=clear phase=before cause=cleared operation=op revision=2\n";
  ExpectFound(Judge(ReleaseWaitsForHolders, ReleaseAt(10, daemon, client)),
              "its listener had not returned");
  ExpectClean(Judge(ReleaseWaitsForHolders,
                    ReleaseAt(10, daemon, client + "7 heard phase=before operation=op\n")),
              1);
}

// ---- 3: valid launches are taken ----------------------------------------------------------------

Files Refused(const std::string& daemon, const std::string& sequence) {
  return {{"daemon-1", HolderUntil(daemon)},
          {"host-1", std::string(kHostHead) + "10 attached session=5\n20 refused session=5 queue=0 "
                                              "sequence=" +
                         sequence + " slot=0 incarnation=1 reason=47\n"}};
}

TEST(ValidLaunches, OneThatItsSessionHadAnnouncedIsFound) {
  ExpectFound(Judge(ValidLaunchesAreTaken,
                    Refused("6 announced session=5 context=1 positions=0:4,\n", "4")),
              "had announced that queue up to 4");
}

TEST(ValidLaunches, OneBehindWhatItsSessionAnnouncedMayBeRefused) {
  ExpectClean(Judge(ValidLaunchesAreTaken,
                    Refused("6 announced session=5 context=1 positions=0:4,\n", "5")),
              1);
}

TEST(ValidLaunches, OneThatNobodyRevokedIsFound) {
  ExpectFound(Judge(ValidLaunchesAreTaken, Refused("", "1")),
              "neither acknowledged nor released anything");
}

TEST(ValidLaunches, AfterTheGraceOrTheSessionAnythingMayBeRefused) {
  for (const char* what : {"6 grace-over operation=op context=1 session=5\n",
                           "6 session-ended session=5 why=gone\n"}) {
    const Verdict verdict = Judge(ValidLaunchesAreTaken, Refused(what, "1"));
    ExpectClean(verdict, 1);
    EXPECT_EQ(verdict.excused, 1u);
  }
}

Files Round(const std::string& ended, const std::string& daemon = "") {
  return {{"daemon-1", HolderUntil(daemon + "90 status\n")},
          {"client-1", "1 client pid=50 uid=0\n2 session session=5 instance=aa\n"
                       "10 round round=1 device=Fake:0\n20 round-ended round=1 device=Fake:0 "
                       "acquired=OK prepared=OK accepted=3 refused=OK " +
                           ended + "\n"}};
}

TEST(ValidLaunches, AWrongResultIsFound) {
  ExpectClean(Judge(ValidLaunchesAreTaken, Round("synchronized=OK read=OK wrong=0")), 1);
  ExpectFound(Judge(ValidLaunchesAreTaken, Round("synchronized=OK read=OK wrong=128")),
              "left 128 wrong results");
}

TEST(ValidLaunches, ARoundThatWasTakenAndThenRefusedIsFound) {
  const std::string refused = "synchronized=LEASE_REVOKED read=OK wrong=0";
  ExpectFound(Judge(ValidLaunchesAreTaken, Round(refused)), "refused as LEASE_REVOKED");
  EXPECT_THAT(Judge(ValidLaunchesAreTaken,
                    Round(refused, "15 context context=1 state=LOST device=Fake:0 domain=uid:0\n"))
                  .violations,
              IsEmpty());
}

// ---- 4: told before and after -------------------------------------------------------------------

std::string Event(int time, const std::string& phase, int revision) {
  return std::to_string(time) + " event what=clear phase=" + phase +
         " cause=cleared operation=op revision=" + std::to_string(revision) +
         " family= index=all failure=OK\n";
}

Files Heard(const std::string& events, const std::string& daemon = "") {
  return {{"daemon-1", "1 daemon instance=aa\n2 session-opened session=5 pid=50 domain=uid:0\n"
                       "10 operation-started operation=op kind=clear scope=all\n"
                       "10 clear-running operation=op\n"
                       "11 told session=5 operation=op context=0 phase=1 kind=2 revision=4\n"
                       "20 told session=5 operation=op context=0 phase=2 kind=2 revision=5\n"
                       "21 operation-ended operation=op ok=1 reason=0\n" +
                           daemon},
          {"client-1", "1 client pid=50 uid=0\n3 session session=5 instance=aa\n"
                       "4 listening session=5\n" +
                           events +
                           "40 barrier-began session=5\n41 barrier session=5\n"
                           "42 closing session=5\n43 closed session=5\n"}};
}

TEST(Told, BeforeAndAfterOnceIsFine) {
  // The pair, the two that were told, and the operation.
  ExpectClean(Judge(ToldBeforeAndAfter, Heard(Event(12, "before", 4) + Event(22, "after", 5))), 4);
}

TEST(Told, OnesThatWereHeardTwiceAreFound) {
  ExpectFound(Judge(ToldBeforeAndAfter, Heard(Event(12, "before", 4) + Event(13, "before", 4) +
                                              Event(22, "after", 5))),
              "2 times BEFORE, 1 times AFTER");
  ExpectFound(Judge(ToldBeforeAndAfter, Heard(Event(12, "before", 4) + Event(22, "after", 5) +
                                              Event(23, "after", 5))),
              "1 times BEFORE, 2 times AFTER");
}

TEST(Told, AfterWithoutBeforeIsFound) {
  EXPECT_THAT(Judge(ToldBeforeAndAfter, Heard(Event(22, "after", 5))).violations,
              ::testing::Contains(HasSubstr("AFTER without BEFORE")));
}

TEST(Told, RevisionsThatFallAreFound) {
  ExpectFound(Judge(ToldBeforeAndAfter, Heard(Event(12, "before", 7) + Event(22, "after", 5))),
              "revision 5 after 7");
}

TEST(Told, WhatWasSentAndNeverHeardIsFound) {
  const Verdict verdict = Judge(ToldBeforeAndAfter, Heard(Event(12, "before", 4)));
  EXPECT_THAT(verdict.violations,
              ::testing::Contains(HasSubstr("told AFTER at 20, never heard")));
}

TEST(Told, AnOperationThatTheDaemonToldItNothingOfIsFound) {
  Files files = Heard(Event(12, "before", 4) + Event(22, "after", 5),
                      "30 operation-started operation=silent kind=destroy-device scope=Fake:0\n"
                      "31 operation-ended operation=silent ok=1 reason=0\n");
  ExpectFound(Judge(ToldBeforeAndAfter, files), "destroy-device Fake:0 (silent)");
}

TEST(Told, WhoHeardThatItMissedSomethingIsExcused) {
  const Verdict verdict = Judge(
      ToldBeforeAndAfter,
      Heard("30 event what=device phase=before cause=missed operation=m revision=6 family= index=all\n"
            "30 event what=device phase=after cause=missed operation=m revision=6 family= index=all\n"));
  EXPECT_THAT(verdict.violations, IsEmpty());
  EXPECT_EQ(verdict.excused, 3u);
}

// ---- 5: destroyed + retained = built ------------------------------------------------------------

TEST(Built, WhatIsMadeIsGivenBackOnce) {
  ExpectClean(Judge(BuiltIsDestroyedOrRetained,
                    {{"host-1", "1 load module=1\n2 resolve kernel=2 module=1\n3 release kernel=2\n"
                                "4 unload module=1\n5 close\n"},
                     {"controller", "9 status built=5 destroyed=3 retained=2\n"}}),
              3);
}

TEST(Built, TwiceNeverAndStillThereAreFound) {
  ExpectFound(Judge(BuiltIsDestroyedOrRetained,
                    {{"host-1", "1 resolve kernel=2\n2 release kernel=2\n3 release kernel=2\n"}}),
              "kernel 2 was given back twice");
  ExpectFound(Judge(BuiltIsDestroyedOrRetained, {{"host-1", "1 free memory=2\n"}}),
              "memory 2 was given back and never made");
  ExpectFound(Judge(BuiltIsDestroyedOrRetained, {{"host-1", "1 load module=2\n2 close\n"}}),
              "module 2 was still there");
  ExpectFound(Judge(BuiltIsDestroyedOrRetained,
                    {{"controller", "9 status built=5 destroyed=3 retained=1\n"}}),
              "5 handles built, 3 destroyed and 1 retained");
}

// ---- 6: leases end with their session -----------------------------------------------------------

TEST(LeasesEnd, OneThatOutlivesItsSessionIsFound) {
  const std::string end = "6 session-ended session=5 why=gone\n";
  const std::string later = Ms(500) + " status\n";
  ExpectFound(Judge(LeasesEndWithTheirSession, {{"daemon-1", HolderUntil(end + later)}}),
              "its lease on slot 0.1 of context 1 did not");
  ExpectClean(Judge(LeasesEndWithTheirSession,
                    {{"daemon-1", HolderUntil(end +
                                              "6 lease-released session=5 context=1 slot=0 "
                                              "incarnation=1\n" +
                                              later)}}),
              1);
}

TEST(LeasesEnd, AGrantToAnEndedSessionIsFound) {
  ExpectFound(
      Judge(LeasesEndWithTheirSession,
            {{"daemon-1", "1 daemon instance=aa\n2 session-opened session=5 pid=50 domain=uid:0\n"
                          "3 session-ended session=5 why=gone\n"
                          "4 granted session=5 context=1 slot=0 incarnation=1\n"}}),
      "after its end");
}

TEST(LeasesEnd, ALaunchBehindTheFenceOfItsSessionIsFound) {
  ExpectFound(Judge(LeasesEndWithTheirSession,
                    {{"host-1", "1 fenced operation= all=0 session=5 slots=\n"
                                "2 admitted session=5 queue=0 sequence=1\n"}}),
              "was admitted after its fence");
}

TEST(LeasesEnd, AKilledClientWhoseSessionStaysIsFound) {
  ExpectFound(Judge(LeasesEndWithTheirSession,
                    {{"daemon-1", "1 daemon instance=aa\n2 session-opened session=5 pid=50 "
                                  "domain=uid:0\n" +
                                      Ms(19000) + " status\n"},
                     {"controller", Ms(1) + " client-killed pid=50\n"}}),
              "process 50 was killed");
}

// ---- 7: one compile -----------------------------------------------------------------------------

std::string Compile(const std::string& end, int epoch = 1) {
  const std::string of = " key=abc epoch=" + std::to_string(epoch);
  return "1 compile-started" + of + "\n2 compile-ended" + of + " end=" + end + "\n";
}

TEST(OneCompile, ADeathASuccessAndAnotherEpochAreFine) {
  ExpectClean(Judge(OneCompile, {{"daemon-1", Compile("died") + Compile("compiled") +
                                                  Compile("compiled", 2)}}),
              3);
  ExpectClean(Judge(OneCompile, {{"daemon-1", Compile("failed") + Compile("failed") +
                                                  Compile("not-counted") + Compile("compiled")}}),
              4);
}

TEST(OneCompile, ASecondSuccessAThirdAttemptAndTwoAtATimeAreFound) {
  ExpectFound(Judge(OneCompile, {{"daemon-1", Compile("compiled") + Compile("compiled")}}),
              "compiled again after a success");
  ExpectFound(
      Judge(OneCompile, {{"daemon-1", Compile("died") + Compile("died") + Compile("compiled")}}),
      "attempted a third time");
  ExpectFound(Judge(OneCompile, {{"daemon-1", "1 compile-started key=abc epoch=1\n"
                                              "2 compile-started key=abc epoch=1\n"}}),
              "twice at a time");
}

// ---- 8: operations end --------------------------------------------------------------------------

Files Operation(const std::string& daemon, const std::string& controller = "") {
  return {{"daemon-1", "1 daemon instance=aa\n" + daemon},
          {"controller", "1 config operation_bound_ms=1000\n" + controller}};
}

TEST(OperationsEnd, OneThatTakesTooLongOrDoesNotEndIsFound) {
  const std::string started = Ms(1) + " operation-started operation=op kind=destroy-device scope=Fake:0\n";
  ExpectClean(Judge(OperationsEndInTime, Operation(started + Ms(900) + " operation-ended operation=op\n")),
              1);
  ExpectFound(Judge(OperationsEndInTime, Operation(started + Ms(1900) + " operation-ended operation=op\n")),
              "took 1899 ms; the bound is 1000");
  ExpectFound(Judge(OperationsEndInTime, Operation(started + Ms(1900) + " status\n")),
              "has not ended");
}

TEST(OperationsEnd, TheDaemonsOwnStopAndAClearsPlaceInTheQueueDoNotCount) {
  ExpectClean(Judge(OperationsEndInTime,
                    Operation(Ms(1) + " operation-started operation=op kind=reset-devices scope=all\n" +
                                  Ms(1900) + " operation-ended operation=op\n",
                              Ms(2) + " daemon-stopped\n" + Ms(1500) + " daemon-continued\n")),
              1);
  ExpectClean(Judge(OperationsEndInTime,
                    Operation(Ms(1) + " operation-started operation=op kind=clear scope=all\n" +
                              Ms(1500) + " clear-running operation=op\n" + Ms(1900) +
                              " operation-ended operation=op\n")),
              1);
}

TEST(OperationsEnd, AClientThatHangsIsFound) {
  ExpectFound(Judge(OperationsEndInTime, Operation("", "5 client-hung pid=50 name=client-3-1\n")),
              "client client-3-1 (pid 50) did not end");
}

// ---- 9, 10: nothing left, nobody crashed --------------------------------------------------------

TEST(NothingLeft, WhatIsLeftIsFound) {
  ExpectClean(Judge(NothingIsLeftBehind, {{"controller", "1 looked-for what=sockets\n"}}), 1);
  ExpectFound(Judge(NothingIsLeftBehind,
                    {{"controller", "1 looked-for what=sockets\n2 left what=socket name=/x\n"}}),
              "left behind: socket /x");
}

TEST(NobodyCrashes, AnEndThatNobodyAskedForIsFound) {
  ExpectClean(Judge(NobodyCrashes, {{"controller", "1 daemon-ended pid=1 unexpected=\n"}}), 1);
  ExpectFound(Judge(NobodyCrashes,
                    {{"controller", "1 daemon-ended pid=1 unexpected=signal%20*6\n"}}),
              "signal *6");
}

TEST(Validators, NoneFindsAnythingInNothing) {
  for (const Validator& validator : AllValidators()) {
    const Verdict verdict = validator.check(*Run::FromFiles({}));
    EXPECT_EQ(verdict.facts, 0u) << validator.name;
    EXPECT_THAT(verdict.violations, IsEmpty()) << validator.name;
  }
}

}  // namespace
}  // namespace kcache::chaos
