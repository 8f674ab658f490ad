/*M!999999\- enable the sandbox mode */ 
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;
/*!40111 SET @OLD_SQL_NOTES=@@SQL_NOTES, SQL_NOTES=0 */;
DROP TABLE IF EXISTS `api_key`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `api_key` (
  `key_id` varbinary(255) NOT NULL,
  `tenant` varbinary(255) NOT NULL,
  `role` varbinary(16) NOT NULL CHECK (`role` in ('tenant','viewer','admin')),
  `secret_hash` binary(32) NOT NULL,
  `created_at` bigint(20) NOT NULL,
  `expires_at` bigint(20) DEFAULT NULL,
  `revoked_at` bigint(20) DEFAULT NULL,
  `last_used_at` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`key_id`),
  CONSTRAINT `tenant_has_name` CHECK (`role` = 'tenant' = (`tenant` <> ''))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `api_key` (`key_id`, `tenant`, `role`, `secret_hash`, `created_at`, `expires_at`, `revoked_at`, `last_used_at`) VALUES (0x6B657931,0x7465616D2D61,0x74656E616E74,0x0102030000000000000000000000000000000000000000000000000000000000,1796031000000000,NULL,NULL,NULL),
(0x6B657932,'',0x61646D696E,0x0900000000000000000000000000000000000000000000000000000000000000,1796031000000000,1796034600000000,1796031000000000,NULL);
DROP TABLE IF EXISTS `audit`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `audit` (
  `seq` bigint(20) NOT NULL AUTO_INCREMENT,
  `who` longblob NOT NULL,
  `what` longblob NOT NULL,
  `at` bigint(20) NOT NULL,
  `why` longblob NOT NULL,
  `result` longblob NOT NULL,
  `tenant` varbinary(255) NOT NULL DEFAULT '',
  `source` varbinary(255) NOT NULL DEFAULT '',
  PRIMARY KEY (`seq`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `audit` (`seq`, `who`, `what`, `at`, `why`, `result`, `tenant`, `source`) VALUES (1,0x61646D696E,0x505554202F74656E616E74732F7465616D2D612F71756F7461,1796031000000000,0x62656361757365,0x323030,'','');
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS audit_keeps BEFORE UPDATE ON audit FOR EACH ROW
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit is append-only';
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS audit_stays BEFORE DELETE ON audit FOR EACH ROW
BEGIN
  IF OLD.seq > COALESCE((SELECT CAST(value AS SIGNED) FROM meta
      WHERE name = IF(OLD.who LIKE 'tenant %', 'audit-of-tenants-until', 'audit-of-others-until')), 0) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the audit is kept until its retention';
  END IF;
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;
DROP TABLE IF EXISTS `binding`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `binding` (
  `tenant` varbinary(255) NOT NULL,
  `id` varbinary(255) NOT NULL,
  `namespace` varbinary(255) NOT NULL,
  `name` varbinary(255) NOT NULL,
  `uid` varbinary(255) NOT NULL CHECK (`uid` <> ''),
  `bound_at` bigint(20) NOT NULL,
  `ever_ready` bigint(20) NOT NULL DEFAULT 0 CHECK (`ever_ready` in (0,1)),
  `first_ready_at` bigint(20) DEFAULT NULL,
  `gone_at` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`tenant`,`id`),
  UNIQUE KEY `binding_uid` (`uid`),
  UNIQUE KEY `binding_name` (`namespace`,`name`),
  CONSTRAINT `binding_of` FOREIGN KEY (`tenant`, `id`) REFERENCES `reservation` (`tenant`, `id`),
  CONSTRAINT `ready_has_time` CHECK (`ever_ready` = 1 = (`first_ready_at` is not null))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `binding` (`tenant`, `id`, `namespace`, `name`, `uid`, `bound_at`, `ever_ready`, `first_ready_at`, `gone_at`) VALUES (0x7465616D2D61,0x676F6E65,0x6D6F64656C73,0x6D642D7530,0x7530,1796031000000000,0,NULL,NULL),
(0x7465616D2D61,0x6F6E65,0x6D6F64656C73,0x6D642D7531,0x7531,1796031000000000,0,NULL,NULL),
(0x7465616D2D61,0x74776F,0x6D6F64656C73,0x6D642D7532,0x7532,1796031000000000,0,NULL,NULL);
DROP TABLE IF EXISTS `commit_mark`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `commit_mark` (
  `writer` varbinary(64) NOT NULL,
  `number` bigint(20) NOT NULL,
  `at` bigint(20) NOT NULL,
  PRIMARY KEY (`writer`),
  KEY `commit_mark_age` (`at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `commit_news`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `commit_news` (
  `writer` varbinary(64) NOT NULL,
  `changes` bigint(20) NOT NULL,
  `at` bigint(20) NOT NULL,
  PRIMARY KEY (`writer`),
  KEY `commit_news_age` (`at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `first_chunk`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `first_chunk` (
  `tenant` varbinary(255) NOT NULL,
  `id` varbinary(255) NOT NULL,
  `first_request_id` varbinary(255) NOT NULL,
  `first_endpoint_uid` varbinary(255) NOT NULL,
  `first_caller` varbinary(255) NOT NULL,
  `first_sent_at` bigint(20) DEFAULT NULL,
  `first_byte_at` bigint(20) DEFAULT NULL,
  `first_at` bigint(20) NOT NULL,
  `first_done_at` bigint(20) DEFAULT NULL,
  `latest_request_id` varbinary(255) NOT NULL,
  `latest_endpoint_uid` varbinary(255) NOT NULL,
  `latest_caller` varbinary(255) NOT NULL,
  `latest_sent_at` bigint(20) DEFAULT NULL,
  `latest_byte_at` bigint(20) DEFAULT NULL,
  `latest_at` bigint(20) NOT NULL,
  `latest_done_at` bigint(20) DEFAULT NULL,
  PRIMARY KEY (`tenant`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `first_chunk` (`tenant`, `id`, `first_request_id`, `first_endpoint_uid`, `first_caller`, `first_sent_at`, `first_byte_at`, `first_at`, `first_done_at`, `latest_request_id`, `latest_endpoint_uid`, `latest_caller`, `latest_sent_at`, `latest_byte_at`, `latest_at`, `latest_done_at`) VALUES (0x7465616D2D61,0x6F6E65,0x6931,0x7031,0x7465616D2D61,1796031000000000,1796031000000000,1796031000001000,NULL,0x6931,0x7031,0x7465616D2D61,1796031000000000,1796031000000000,1796031000001000,NULL);
DROP TABLE IF EXISTS `goose_db_version`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `goose_db_version` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `version_id` bigint(20) NOT NULL,
  `is_applied` tinyint(1) NOT NULL,
  `tstamp` datetime DEFAULT current_timestamp(),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=32 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `goose_db_version` (`id`, `version_id`, `is_applied`, `tstamp`) VALUES (1,0,1,'2026-11-30 20:40:37'),
(2,1,1,'2026-11-30 20:40:37'),
(3,2,1,'2026-11-30 20:40:37'),
(4,3,1,'2026-11-30 20:40:37'),
(5,4,1,'2026-11-30 20:40:37'),
(6,5,1,'2026-11-30 20:40:37'),
(7,6,1,'2026-11-30 20:40:37'),
(8,7,1,'2026-11-30 20:40:37'),
(9,8,1,'2026-11-30 20:40:37'),
(10,9,1,'2026-11-30 20:40:37'),
(11,10,1,'2026-11-30 20:40:37'),
(12,11,1,'2026-11-30 20:40:37'),
(13,12,1,'2026-11-30 20:40:37'),
(14,13,1,'2026-11-30 20:40:37'),
(15,14,1,'2026-11-30 20:40:37'),
(16,15,1,'2026-11-30 20:40:37'),
(17,16,1,'2026-11-30 20:40:37'),
(18,17,1,'2026-11-30 20:40:37'),
(19,18,1,'2026-11-30 20:40:37'),
(20,19,1,'2026-11-30 20:40:37'),
(21,20,1,'2026-11-30 20:40:37'),
(22,21,1,'2026-11-30 20:40:37'),
(23,22,1,'2026-11-30 20:40:37'),
(24,23,1,'2026-11-30 20:40:37'),
(25,24,1,'2026-11-30 20:40:37'),
(26,25,1,'2026-11-30 20:40:37'),
(27,26,1,'2026-11-30 20:40:37'),
(28,27,1,'2026-11-30 20:40:37'),
(29,28,1,'2026-11-30 20:40:37'),
(30,29,1,'2026-11-30 20:40:37'),
(31,30,1,'2026-11-30 20:40:37');
DROP TABLE IF EXISTS `gpu_pool`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `gpu_pool` (
  `pool` varbinary(255) NOT NULL CHECK (`pool` <> ''),
  `cap` bigint(20) NOT NULL DEFAULT 0 CHECK (`cap` >= 0),
  `used` bigint(20) NOT NULL DEFAULT 0 CHECK (`used` >= 0),
  `warm` varchar(6000) NOT NULL DEFAULT '{}',
  `warm_day` varchar(6000) NOT NULL DEFAULT '{}',
  PRIMARY KEY (`pool`),
  CONSTRAINT `warm_is_an_object` CHECK (json_type(`warm`) = 'OBJECT'),
  CONSTRAINT `warm_day_is_an_object` CHECK (json_type(`warm_day`) = 'OBJECT')
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `gpu_pool` (`pool`, `cap`, `used`, `warm`, `warm_day`) VALUES (0x64656661756C74,10,5,'{}','{}');
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS pool_stays BEFORE DELETE ON gpu_pool FOR EACH ROW
BEGIN
  IF EXISTS (SELECT 1 FROM reservation r WHERE r.pool = OLD.pool) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the pool has requests';
  END IF;
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;
DROP TABLE IF EXISTS `inference`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `inference` (
  `request_id` varbinary(255) NOT NULL,
  `client_request_id` longblob NOT NULL,
  `tenant` varbinary(255) NOT NULL,
  `key_id` varbinary(255) NOT NULL,
  `owner` varbinary(255) NOT NULL,
  `model` longblob NOT NULL,
  `version` longblob NOT NULL,
  `reservation_id` varbinary(255) NOT NULL,
  `endpoint_uid` varbinary(255) NOT NULL,
  `object_uid` varbinary(255) NOT NULL,
  `path` longblob NOT NULL,
  `stream` bigint(20) NOT NULL CHECK (`stream` in (0,1)),
  `status` bigint(20) NOT NULL,
  `outcome` varbinary(64) NOT NULL,
  `error` longblob NOT NULL,
  `received_at` bigint(20) NOT NULL,
  `queued_us` bigint(20) NOT NULL,
  `sent_at` bigint(20) DEFAULT NULL,
  `first_byte_at` bigint(20) DEFAULT NULL,
  `first_content_at` bigint(20) DEFAULT NULL,
  `last_byte_at` bigint(20) DEFAULT NULL,
  `done_at` bigint(20) DEFAULT NULL,
  `prompt_tokens` bigint(20) NOT NULL,
  `completion_tokens` bigint(20) NOT NULL,
  PRIMARY KEY (`request_id`),
  KEY `inference_of` (`owner`,`reservation_id`,`received_at`,`request_id`),
  KEY `inference_age` (`received_at`,`request_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `inference` (`request_id`, `client_request_id`, `tenant`, `key_id`, `owner`, `model`, `version`, `reservation_id`, `endpoint_uid`, `object_uid`, `path`, `stream`, `status`, `outcome`, `error`, `received_at`, `queued_us`, `sent_at`, `first_byte_at`, `first_content_at`, `last_byte_at`, `done_at`, `prompt_tokens`, `completion_tokens`) VALUES (0x6931,'',0x7465616D2D61,'',0x7465616D2D61,0x6F6E65,0x7631,0x6F6E65,0x7031,'',0x2F76312F636861742F636F6D706C6574696F6E73,0,200,0x636F6D706C65746564,'',1796031000000000,0,1796031000000000,1796031000000000,1796031000001000,NULL,NULL,0,0);
DROP TABLE IF EXISTS `journal`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `journal` (
  `seq` bigint(20) NOT NULL AUTO_INCREMENT,
  `tenant` varbinary(255) NOT NULL,
  `id` varbinary(255) NOT NULL,
  `pool` varbinary(255) NOT NULL,
  `op` varbinary(16) NOT NULL CHECK (`op` in ('reserve','grow','shrink','release')),
  `revision` bigint(20) NOT NULL,
  `slots` bigint(20) NOT NULL,
  `at` bigint(20) NOT NULL,
  `once` varbinary(16) GENERATED ALWAYS AS (case when `op` in ('reserve','release') then `op` end) STORED,
  PRIMARY KEY (`seq`),
  UNIQUE KEY `journal_revision` (`tenant`,`id`,`revision`),
  UNIQUE KEY `journal_once` (`tenant`,`id`,`once`),
  CONSTRAINT `journal_of` FOREIGN KEY (`tenant`, `id`) REFERENCES `reservation` (`tenant`, `id`),
  CONSTRAINT `journal_sign` CHECK (`slots` <> 0 and `slots` > 0 = `op` in ('reserve','grow'))
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `journal` (`seq`, `tenant`, `id`, `pool`, `op`, `revision`, `slots`, `at`, `once`) VALUES (1,0x7465616D2D61,0x676F6E65,0x64656661756C74,0x72657365727665,2,1,1796031000000000,0x72657365727665),
(2,0x7465616D2D61,0x6F6E65,0x64656661756C74,0x72657365727665,2,1,1796031000000000,0x72657365727665),
(3,0x7465616D2D61,0x74776F,0x64656661756C74,0x72657365727665,2,1,1796031000000000,0x72657365727665),
(4,0x7465616D2D61,0x676F6E65,0x64656661756C74,0x72656C65617365,4,-1,1796031000000000,0x72656C65617365),
(5,0x7465616D2D62,0x747269706C65,0x64656661756C74,0x72657365727665,2,3,1796031000000000,0x72657365727665);
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS journal_keeps BEFORE UPDATE ON journal FOR EACH ROW
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the journal is append-only';
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS journal_stays BEFORE DELETE ON journal FOR EACH ROW
BEGIN
  SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the journal is append-only';
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;
DROP TABLE IF EXISTS `meta`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `meta` (
  `name` varbinary(64) NOT NULL,
  `value` varbinary(255) NOT NULL,
  PRIMARY KEY (`name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `meta` (`name`, `value`) VALUES (0x65766964656E63652D7475726E,''),
(0x696E6361726E6174696F6E,0x6637386139333233303531323737383831386561616464383066363665323133),
(0x7475726E,'');
DROP TABLE IF EXISTS `model_grant`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `model_grant` (
  `owner` varbinary(255) NOT NULL,
  `model` varbinary(255) NOT NULL,
  `grantee` varbinary(255) NOT NULL,
  `at` bigint(20) NOT NULL,
  PRIMARY KEY (`owner`,`model`,`grantee`),
  CONSTRAINT `grantee_is_another` CHECK (`grantee` <> `owner`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `model_grant` (`owner`, `model`, `grantee`, `at`) VALUES (0x7465616D2D61,0x6F6E65,0x7465616D2D62,1796031000000000);
DROP TABLE IF EXISTS `outbox`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `outbox` (
  `seq` bigint(20) NOT NULL AUTO_INCREMENT,
  `tenant` varbinary(255) NOT NULL,
  `id` varbinary(255) NOT NULL,
  `op` varbinary(16) NOT NULL CHECK (`op` in ('apply','delete')),
  `generation` bigint(20) NOT NULL,
  `payload` mediumblob NOT NULL,
  `funded` bigint(20) NOT NULL CHECK (`funded` >= 0),
  `attempts` bigint(20) NOT NULL DEFAULT 0,
  `next_attempt_at` bigint(20) NOT NULL,
  `lease_owner` varbinary(255) DEFAULT NULL,
  `lease_until` bigint(20) DEFAULT NULL,
  `delivered_at` bigint(20) DEFAULT NULL,
  `last_error` longblob DEFAULT NULL,
  PRIMARY KEY (`seq`),
  UNIQUE KEY `outbox_once` (`tenant`,`id`,`op`,`generation`),
  KEY `outbox_due` (`delivered_at`,`next_attempt_at`,`seq`),
  KEY `outbox_open` (`tenant`,`id`,`delivered_at`,`seq`),
  CONSTRAINT `outbox_of` FOREIGN KEY (`tenant`, `id`) REFERENCES `reservation` (`tenant`, `id`),
  CONSTRAINT `lease_is_whole` CHECK (`lease_owner` is null = (`lease_until` is null)),
  CONSTRAINT `delivered_is_free` CHECK (`delivered_at` is null or `lease_owner` is null)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `outbox` (`seq`, `tenant`, `id`, `op`, `generation`, `payload`, `funded`, `attempts`, `next_attempt_at`, `lease_owner`, `lease_until`, `delivered_at`, `last_error`) VALUES (1,0x7465616D2D61,0x676F6E65,0x6170706C79,1,0x7B226E616D65223A22676F6E65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,1,1,1796031000000000,NULL,NULL,1796031000000000,NULL),
(2,0x7465616D2D61,0x6F6E65,0x6170706C79,1,0x7B226E616D65223A226F6E65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,1,1,1796031000000000,NULL,NULL,1796031000000000,NULL),
(3,0x7465616D2D61,0x74776F,0x6170706C79,1,0x7B226E616D65223A2274776F222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,1,1,1796031000000000,NULL,NULL,1796031000000000,NULL),
(4,0x7465616D2D61,0x676F6E65,0x64656C657465,1,0x7B226E616D65223A22676F6E65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0,1,1796031000000000,NULL,NULL,1796031000000000,NULL),
(5,0x7465616D2D62,0x747269706C65,0x6170706C79,1,0x7B226E616D65223A22747269706C65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A332C226D6178223A337D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,3,0,1796031000000000,NULL,NULL,NULL,NULL);
DROP TABLE IF EXISTS `reservation`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `reservation` (
  `seq` bigint(20) NOT NULL AUTO_INCREMENT,
  `tenant` varbinary(255) NOT NULL,
  `id` varbinary(255) NOT NULL CHECK (`id` <> ''),
  `revision` bigint(20) NOT NULL DEFAULT 1 CHECK (`revision` >= 1),
  `generation` bigint(20) NOT NULL DEFAULT 1 CHECK (`generation` >= 1),
  `cost` bigint(20) NOT NULL CHECK (`cost` between 1 and 1000000),
  `priority` bigint(20) NOT NULL CHECK (`priority` between 0 and 100),
  `need` bigint(20) NOT NULL CHECK (`need` >= `cost` and `need` MOD `cost` = 0),
  `model_name` varbinary(255) NOT NULL,
  `model_version` varbinary(255) NOT NULL,
  `spec` mediumblob NOT NULL,
  `spec_hash` varbinary(128) NOT NULL,
  `state` varbinary(16) NOT NULL DEFAULT 'waiting' CHECK (`state` in ('waiting','reserved','released','expired')),
  `pool` varbinary(255) NOT NULL,
  `node` varbinary(255) NOT NULL DEFAULT '',
  `held` bigint(20) NOT NULL DEFAULT 0 CHECK (`held` >= 0 and `held` MOD `cost` = 0),
  `submits` bigint(20) NOT NULL DEFAULT 1 CHECK (`submits` >= 1),
  `created_at` bigint(20) NOT NULL,
  `reserved_at` bigint(20) DEFAULT NULL,
  `release_requested_at` bigint(20) DEFAULT NULL,
  `released_at` bigint(20) DEFAULT NULL,
  `expires_at` bigint(20) NOT NULL CHECK (`expires_at` > `created_at`),
  `live` tinyint(4) GENERATED ALWAYS AS (case when `state` in ('waiting','reserved') then 1 end) STORED,
  `releasing` tinyint(4) GENERATED ALWAYS AS (case when `state` = 'reserved' and `release_requested_at` is not null then 1 end) STORED,
  `funded` bigint(20) NOT NULL DEFAULT 0,
  `shrinking` tinyint(4) GENERATED ALWAYS AS (case when `state` = 'reserved' and `release_requested_at` is null and `held` > `cost` * `funded` then 1 end) STORED,
  PRIMARY KEY (`seq`),
  UNIQUE KEY `reservation_id` (`tenant`,`id`),
  UNIQUE KEY `reservation_live_model` (`tenant`,`model_name`,`model_version`,`live`),
  KEY `reservation_queue` (`tenant`,`state`,`priority` DESC,`seq`,`need`,`pool`,`created_at`,`expires_at`,`id`),
  KEY `reservation_expiry` (`state`,`expires_at`),
  KEY `reservation_releasing` (`releasing`,`seq`),
  KEY `reservation_shrinking` (`shrinking`,`seq`),
  CONSTRAINT `reserved_holds` CHECK (`state` = 'reserved' = (`held` > 0)),
  CONSTRAINT `released_has_time` CHECK (`state` = 'released' = (`released_at` is not null)),
  CONSTRAINT `reserved_has_time` CHECK (`state` <> 'reserved' or `reserved_at` is not null),
  CONSTRAINT `released_was_asked` CHECK (`state` <> 'released' or `release_requested_at` is not null),
  CONSTRAINT `waiting_has_nothing` CHECK (`state` not in ('waiting','expired') or `reserved_at` is null and `release_requested_at` is null),
  CONSTRAINT `funded_is_paid` CHECK (`funded` >= 0 and `funded` * `cost` <= `held`),
  CONSTRAINT `reserved_is_funded` CHECK (`state` = 'reserved' = (`funded` > 0))
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `reservation` (`seq`, `tenant`, `id`, `revision`, `generation`, `cost`, `priority`, `need`, `model_name`, `model_version`, `spec`, `spec_hash`, `state`, `pool`, `node`, `held`, `submits`, `created_at`, `reserved_at`, `release_requested_at`, `released_at`, `expires_at`, `live`, `releasing`, `funded`, `shrinking`) VALUES (1,0x7465616D2D61,0x676F6E65,4,1,1,50,1,0x676F6E65,0x7631,0x7B226E616D65223A22676F6E65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0x76313A61613062326565616261363365363531613235313137616663623431373161376661303834383462323335376636353666353165313462626263623831316266,0x72656C6561736564,0x64656661756C74,'',0,1,1796031000000000,1796031000000000,1796031000000000,1796031000000000,1796117400000000,NULL,NULL,0,NULL),
(2,0x7465616D2D61,0x6F6E65,2,1,1,50,1,0x6F6E65,0x7631,0x7B226E616D65223A226F6E65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0x76313A32353539613837313866313966333466633333343264666464386636306436663564396465666262346436613935336265353131316361313934336535383738,0x7265736572766564,0x64656661756C74,'',1,1,1796031000000000,1796031000000000,NULL,NULL,1796117400000000,1,NULL,1,NULL),
(3,0x7465616D2D61,0x74776F,2,1,1,50,1,0x74776F,0x7631,0x7B226E616D65223A2274776F222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0x76313A39316562613035656661353830356465316432656230373866313461323562623266386137613032626366353239343338633263646430393266316162636633,0x7265736572766564,0x64656661756C74,'',1,1,1796031000000000,1796031000000000,NULL,NULL,1796117400000000,1,NULL,1,NULL),
(4,0x7465616D2D61,0x717565756564,1,1,3,50,3,0x717565756564,0x7631,0x7B226E616D65223A22717565756564222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0x76313A39643934626237336438333964316330616165636433343830613234656633613761613032633565356337656535396564626431333435383432396239356465,0x77616974696E67,0x64656661756C74,'',0,1,1796031000000000,NULL,NULL,NULL,1796117400000000,1,NULL,0,NULL),
(5,0x7465616D2D62,0x747269706C65,2,1,1,50,3,0x747269706C65,0x7631,0x7B226E616D65223A22747269706C65222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A332C226D6178223A337D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0x76313A32306130373763643166353535346361633130323662306237343437643438303734633538313965326262666563306135373032363731613165386664383262,0x7265736572766564,0x64656661756C74,'',3,1,1796031000000000,1796031000000000,NULL,NULL,1796117400000000,1,NULL,3,NULL),
(6,0x7465616D2D62,0x582E795F7A2D39,1,1,4,50,4,0x582E795F7A2D39,0x7631,0x7B226E616D65223A22582E795F7A2D39222C2276657273696F6E223A227631222C22636C617373223A226C6C6D222C22776F726B6C6F6164223A226F6E6C696E65222C22656E67696E65223A2273696D756C61746564222C226770754D656D6F72794D6942223A343039362C2267707573223A312C227265706C69636173223A7B226D696E223A312C226D6178223A317D2C2274726166666963223A7B22776569676874223A3130307D2C22636F6C645374617274223A7B2274696D656F75745365636F6E6473223A3132302C226D617857616974696E67223A313030307D2C226361636865223A7B22656E61626C6564223A66616C73657D7D,0x76313A38303033393931613562346661316663666437303534333239623661333964363833643737656235656436613666626661643438626665396134656366376333,0x77616974696E67,0x64656661756C74,'',0,1,1796031000000000,NULL,NULL,NULL,1796117400000000,1,NULL,0,NULL);
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS reservation_moves BEFORE UPDATE ON reservation FOR EACH ROW
BEGIN
  IF OLD.state <> NEW.state AND NOT (OLD.state = 'waiting' OR (OLD.state = 'reserved' AND NEW.state = 'released')) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a reservation only moves waiting to reserved to released, or waiting to expired or released';
  END IF;
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;
DROP TABLE IF EXISTS `session`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `session` (
  `id_hash` binary(32) NOT NULL,
  `key_id` varbinary(255) NOT NULL,
  `csrf_token` varbinary(255) NOT NULL,
  `created_at` bigint(20) NOT NULL,
  `expires_at` bigint(20) NOT NULL,
  PRIMARY KEY (`id_hash`),
  KEY `session_expiry` (`expires_at`),
  KEY `session_of` (`key_id`),
  CONSTRAINT `session_of` FOREIGN KEY (`key_id`) REFERENCES `api_key` (`key_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `tenant_quota`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8mb4 */;
CREATE TABLE `tenant_quota` (
  `tenant` varbinary(255) NOT NULL CHECK (`tenant` <> ''),
  `cap` bigint(20) NOT NULL DEFAULT 0 CHECK (`cap` >= 0),
  `used` bigint(20) NOT NULL DEFAULT 0 CHECK (`used` >= 0),
  `engines` mediumtext NOT NULL CHECK (json_type(`engines`) = 'ARRAY'),
  `pools` mediumtext NOT NULL CHECK (json_type(`pools`) = 'ARRAY'),
  `limits` varchar(4096) NOT NULL DEFAULT '{}',
  PRIMARY KEY (`tenant`),
  CONSTRAINT `limits_are_an_object` CHECK (json_type(`limits`) = 'OBJECT')
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
/*!40101 SET character_set_client = @saved_cs_client */;

INSERT INTO `tenant_quota` (`tenant`, `cap`, `used`, `engines`, `pools`, `limits`) VALUES (0x7465616D2D61,4,2,'[\"ollama\",\"file:///models/\"]','[]','{}'),
(0x7465616D2D62,4,3,'[]','[\"default\",\"spare\"]','{}');
/*!50003 SET @saved_cs_client      = @@character_set_client */ ;
/*!50003 SET @saved_cs_results     = @@character_set_results */ ;
/*!50003 SET @saved_col_connection = @@collation_connection */ ;
/*!50003 SET character_set_client  = utf8mb4 */ ;
/*!50003 SET character_set_results = utf8mb4 */ ;
/*!50003 SET collation_connection  = utf8mb4_bin */ ;
/*!50003 SET @saved_sql_mode       = @@sql_mode */ ;
/*!50003 SET sql_mode              = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION' */ ;
DELIMITER ;;
/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER IF NOT EXISTS tenant_stays BEFORE DELETE ON tenant_quota FOR EACH ROW
BEGIN
  IF EXISTS (SELECT 1 FROM reservation r WHERE r.tenant = OLD.tenant) THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the tenant has requests';
  END IF;
END 
*/;;
DELIMITER ;
/*!50003 SET sql_mode              = @saved_sql_mode */ ;
/*!50003 SET character_set_client  = @saved_cs_client */ ;
/*!50003 SET character_set_results = @saved_cs_results */ ;
/*!50003 SET collation_connection  = @saved_col_connection */ ;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;
/*!40111 SET SQL_NOTES=@OLD_SQL_NOTES */;

